"""The tagger below all heads: vectors of words, characters and capitals, then a bidirectional LSTM.

    backbone = Backbone(vocabulary)
    logits = backbone(batch)             # [tokens, labels]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .data import LABELS
from .encode import N_GAZETTEER, NO_WORD, UNKNOWN, Batch, Vocabulary


class Characters(nn.Module):
    """A vector for each spelling: a convolution over characters, then the maximum of each filter."""

    def __init__(self, n_characters: int, dim: int, filters: int, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dim, padding_idx=0)
        nn.init.uniform_(self.embedding.weight, -((3 / dim) ** 0.5), (3 / dim) ** 0.5)
        with torch.no_grad():
            self.embedding.weight[0] = 0
        self.convolution = nn.Conv1d(dim, filters, 3, padding=1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, characters: Tensor) -> Tensor:
        # cut to the longest word
        characters = characters[:, : max(1, int((characters != 0).sum(1).max()))]
        # [forms, filters, characters]
        found = self.convolution(self.dropout(self.embedding(characters)).mT)
        return found.masked_fill((characters == 0).unsqueeze(1), -torch.inf).amax(2)


class Backbone(nn.Module):
    """A bidirectional LSTM over words, and a linear map to the labels.

    Args:
        hidden: units in each direction.
        dropout: of the input and the output of the LSTM.
        word_dropout: share of words hidden in training, so that the model also uses characters and neighbours.
        gazetteer: add the entities of the training data as input; their initial effect is zero.
    """

    def __init__(self, vocabulary: Vocabulary, hidden: int = 200, dropout: float = 0.5, word_dropout: float = 0.05,
                 characters: int = 30, filters: int = 50, gazetteer: bool = False):
        super().__init__()
        for name in ("characters", "case", "vectors", "learned"):
            # determined by the corpus, not learned: not saved
            self.register_buffer(f"table_{name}", getattr(vocabulary, name), persistent=False)
        dim = vocabulary.vectors.shape[1]
        self.words = nn.Embedding(vocabulary.n_learned, dim, padding_idx=NO_WORD)
        nn.init.normal_(self.words.weight, std=0.3)
        with torch.no_grad():
            self.words.weight[NO_WORD] = 0
        self.spelling = Characters(vocabulary.n_characters, characters, filters, 0.25)
        width = dim + filters + vocabulary.case.shape[1]
        self.lstm = nn.LSTM(width, hidden, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = word_dropout
        self.label = nn.Linear(2 * hidden, len(LABELS))
        self.gazetteer = nn.Linear(N_GAZETTEER, 2 * hidden, bias=False) if gazetteer else None
        if self.gazetteer is not None:
            nn.init.zeros_(self.gazetteer.weight)

    def _read(self, x: Tensor, place: Tensor, batch: Batch, direction: str) -> Tensor:
        """The states of one direction, [tokens, hidden]; `place` is the order of reading."""
        steps = x.new_zeros(int(batch.lengths.max()), len(batch.lengths), x.shape[1])
        steps = steps.index_put((place, batch.sentence), x)
        weights = [getattr(self.lstm, f"{name}_l0{direction}") for name in ("weight_ih", "weight_hh", "bias_ih",
                                                                           "bias_hh")]
        start = x.new_zeros(1, len(batch.lengths), self.lstm.hidden_size)
        states, _, _ = torch.lstm(steps, (start, start), weights, True, 1, 0.0, self.training, False, False)
        return states[place, batch.sentence]

    def forward(self, batch: Batch) -> Tensor:
        """[tokens, labels]"""
        forms, where = torch.unique(batch.forms, return_inverse=True)
        vectors, learned = self.table_vectors[batch.forms], self.table_learned[batch.forms]
        if self.training and self.word_dropout:
            hidden = torch.rand(len(batch.forms)) < self.word_dropout
            vectors = vectors.masked_fill(hidden.unsqueeze(1), 0.0)
            learned = learned.masked_fill(hidden, UNKNOWN)
        x = torch.cat([vectors + self.words(learned), self.spelling(self.table_characters[forms])[where],
                       self.table_case[batch.forms]], 1)
        x = self.dropout(x)
        # padded, one direction at a time: much faster than a packed sequence if lengths are similar
        x = torch.cat([self._read(x, batch.place, batch, ""),
                       self._read(x, batch.place_from_end, batch, "_reverse")], 1)
        if self.gazetteer is not None:
            x = x + self.gazetteer(batch.gazetteer)
        return self.label(self.dropout(x))
