"""A plan and tensors to violation counts and messages.  Stage: plan -> **execute** -> layer."""
