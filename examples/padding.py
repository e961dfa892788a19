"""Put items of different lengths into one batch: pad them, and mark the existing entities with a mask.

    python examples/padding.py
"""

import torch

from logicmp import LogicMP

# tag I must not follow tag O
TAGS = """
label(token) in {O, B, I}
3 label(i) in {O} => label(i+1) in {O, B}
"""


def main() -> None:
    layer = LogicMP(TAGS)
    generator = torch.Generator().manual_seed(1)
    sentences = [torch.randn(n, 3, generator=generator) for n in (5, 3, 7)]

    padded = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True)  # [3, 7, 3]
    lengths = torch.tensor([len(s) for s in sentences])
    mask = torch.arange(padded.shape[1]) < lengths.unsqueeze(1)  # [3, 7]

    with torch.no_grad():
        together = layer(padded, mask={"token": mask})
        for sentence, corrected in zip(sentences, together, strict=True):
            alone = layer(sentence)
            same = torch.allclose(alone, corrected[: len(sentence)], atol=1e-5)
            tags = lambda logits: " ".join("OBI"[k] for k in logits.argmax(-1))  # noqa: E731
            print(f"{tags(sentence):<15} -> {tags(alone):<15} same in the padded batch: {same}")


if __name__ == "__main__":
    main()
