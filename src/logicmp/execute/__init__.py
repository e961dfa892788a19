"""A plan and tensors to violation counts, messages and mean field.  Room: plan -> **execute** -> layer."""
