# %% [markdown]
# # Notebook: a tagger whose sequences are valid
#
# A small model labels words one by one. BIO rules make its sequences valid, and training through them makes it better.
# [Rules for a tagger](../tagging.md) has the details.

# %%
import matplotlib.pyplot as plt
import torch

from logicmp import LogicMP, recipes

_ = torch.manual_seed(0)
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
RULES = recipes.bio(LABELS)
print(RULES)

# %% [markdown]
# Made-up sentences of 12 words: names of one to three words. The features of a word are its label with noise.

# %%
n_words = 12


def make(n_sentences):
    labels = torch.zeros(n_sentences, n_words, dtype=torch.long)
    for sentence in labels:
        i = int(torch.randint(3, ()))
        while i < n_words:
            kind, length = 1 + 2 * int(torch.randint(2, ())), int(torch.randint(1, 4, ()))
            sentence[i : i + length] = kind + 1
            sentence[i] = kind
            i += length + int(torch.randint(1, 4, ()))
    words = torch.nn.functional.one_hot(labels, 5) + 0.5 * torch.randn(n_sentences, n_words, 5)
    return words, labels


(words, labels), (new_words, new_labels) = make(60), make(200)
start = {"first": torch.arange(n_words) == 0}

# %% [markdown]
# The same linear model twice: with the usual loss per word, and with the likelihood of whole sequences under the rules.

# %%
rules = LogicMP(RULES, method="exact")


def train(loss_of):
    model = torch.nn.Linear(5, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        loss = loss_of(model(words))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def n_invalid(found):
    before = torch.cat([torch.zeros_like(found[:, :1]), found[:, :-1]], 1)
    is_inside = (found == 2) | (found == 4)
    return int((is_inside & (before != found) & (before != found - 1)).sum())


plain = train(lambda logits: torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()))
ruled = train(lambda logits: rules.loss(logits, labels, start).mean())
right = {}
with torch.no_grad():
    for name, found in (
            ("word by word", plain(new_words).argmax(-1)),
            ("word by word, then decode", rules.decode(plain(new_words), start)),
            ("trained by likelihood, decode", rules.decode(ruled(new_words), start))):
        right[name] = (found == new_labels).all(-1).float().mean().item()
        print(f"{name:30} {right[name]:6.1%} of sentences right, {n_invalid(found):3} invalid transitions")

# %%
figure, axis = plt.subplots(figsize=(6, 2.2))
axis.barh(list(right)[::-1], list(right.values())[::-1])
axis.set_xlabel("share of sentences with all labels right")
figure.tight_layout()
plt.show()
