"""Train a token classifier of transformers under BIO rules with its `Trainer`; decode valid labels only.

    pip install transformers accelerate
    python examples/trainer.py
"""

import torch
from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments

from logicmp import LogicMP, recipes

NAMES = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}


class Tagger(BertForTokenClassification):
    def __init__(self, config):
        super().__init__(config)
        self.rules = LogicMP(recipes.bio(config.id2label), method="exact")

    def forward(self, input_ids, attention_mask, labels=None, **more):
        output = super().forward(input_ids, attention_mask)
        self.first = {"first": torch.arange(input_ids.shape[1], device=input_ids.device) == 0}
        if labels is not None:
            output.loss = self.rules.loss(output.logits, labels, self.first, attention_mask.bool()).mean()
        return output


if __name__ == "__main__":
    torch.manual_seed(0)
    labels = torch.tensor([[1, 2, 0, 3, 4, 0], [0, 3, 0, 1, 2, 2], [3, 4, 0, 0, -100, -100]]).repeat(40, 1)
    mask, words = labels >= 0, torch.where(torch.rand(labels.shape) < 0.4, 5, labels.clamp(min=0))
    model = Tagger(BertConfig(vocab_size=6, hidden_size=16, num_hidden_layers=1, num_attention_heads=1, id2label=NAMES))
    options = TrainingArguments("tagger", num_train_epochs=6, learning_rate=5e-3, save_strategy="no", report_to=[])
    Trainer(model, options, train_dataset=[{"input_ids": words[k], "attention_mask": mask[k], "labels": labels[k]}
                                           for k in range(len(words))]).train()
    logits = model(words, mask).logits
    for how, found in (("argmax", logits.argmax(-1)), ("decode", model.rules.decode(logits, model.first, mask))):
        is_valid = model.rules.violations(100.0 * torch.eye(5)[found], model.first, mask).sum(1) < 0.5
        print(f"{how}: {int(is_valid.sum())} of {len(words)} sentences valid")
