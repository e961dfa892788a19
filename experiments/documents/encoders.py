"""Encoders: a vector for each word of a page.

    MiniEncoder          word vectors, learned 2-D box embeddings, a small transformer; the default
    LayoutEncoder        LayoutLM with your own weights: --encoder layoutlm --weights DIR
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from logicmp import LogicMPError

from .features import N_GEOMETRY, N_LOOK, N_VECTOR, Batch, windows

# number of values of a rounded coordinate
N_PLACES = 128


class BoxEmbedding(nn.Module):
    """The six learned embeddings of LayoutLM: left, top, right, bottom, width, height."""

    def __init__(self, dim: int):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(N_PLACES + 1, dim) for _ in range(6))
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, boxes: Tensor) -> Tensor:
        sizes = boxes[..., 2:] - boxes[..., :2]
        # sizes are small, so their resolution is four times finer
        places = (torch.cat([boxes, (4 * sizes).clamp(0, 1)], -1) * N_PLACES).round().long()
        return torch.stack([table(places[..., k]) for k, table in enumerate(self.tables)]).sum(0)


class Attention(nn.Module):
    """A transformer layer whose attention also depends on the geometry of pairs."""

    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.inward, self.outward = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.bias = nn.Linear(N_GEOMETRY, heads)
        self.feed = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        # [3, batch, heads, n, dim / heads]
        parts = self.inward(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.bias(batch.geometry).movedim(-1, 1).masked_fill(~batch.mask[:, None, None], -1e4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, attn_mask=bias)
        x = x + self.dropout(self.outward(mixed.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.feed(self.between(x)))


class MiniEncoder(nn.Module):
    """A small transformer over MiniLM's word vectors and boxes."""

    def __init__(self, dim: int = 128, layers: int = 3, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.dim = dim
        self.words = nn.Linear(N_VECTOR + N_LOOK, dim)
        self.boxes = BoxEmbedding(dim)
        self.layers = nn.ModuleList(Attention(dim, heads, dropout) for _ in range(layers))
        self.last = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Tensor:
        """[batch, n, dim]"""
        x = self.dropout(self.words(batch.words) + self.boxes(batch.boxes))
        for layer in self.layers:
            x = layer(x, batch)
        return torch.as_tensor(self.last(x))


class LayoutEncoder(nn.Module):
    """LayoutLM from a folder of weights and vocabulary; a word is the mean of its word pieces.

    Pages with too many pieces are read in several windows.
    """

    def __init__(self, weights: Path):
        super().__init__()
        try:
            from transformers import AutoTokenizer, LayoutLMModel
        except ImportError:
            raise LogicMPError("LayoutLM needs transformers, which is not installed",
                               'pip install -c constraints.txt "logicmp[documents]"') from None
        if not (weights / "config.json").is_file():
            raise LogicMPError(f"no weights of LayoutLM in {str(weights)!r}: config.json is missing",
                               "use a folder written by save_pretrained of LayoutLM and of its tokenizer")
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(weights, local_files_only=True)
            self.model: Any = LayoutLMModel.from_pretrained(weights, local_files_only=True)
        except (OSError, ValueError) as cause:
            raise LogicMPError(f"cannot load LayoutLM from {str(weights)!r}: {cause}") from None
        self.dim = int(self.model.config.hidden_size)

    def forward(self, batch: Batch) -> Tensor:
        """[batch, n, dim]"""
        out = batch.words.new_zeros(*batch.mask.shape, self.dim)
        return torch.stack([self._page(item.page.words, item.boxes, row)
                            for item, row in zip(batch.items, out, strict=True)])

    def _page(self, words: tuple[str, ...], boxes: Tensor, out: Tensor) -> Tensor:
        tokenizer = self.tokenizer
        pieces = tokenizer(list(words), add_special_tokens=False)["input_ids"]
        # a word without pieces becomes the unknown token
        pieces = [ids or [tokenizer.unk_token_id] for ids in pieces]
        limit = self.model.config.max_position_embeddings - 2
        places = (boxes * 1000).round().long()
        for window in windows([len(ids) for ids in pieces], limit):
            owner = torch.tensor([k for k in window for _ in pieces[k]][:limit])
            ids = torch.tensor([i for k in window for i in pieces[k]][:limit])
            ids = torch.cat([ids.new_tensor([tokenizer.cls_token_id]), ids, ids.new_tensor([tokenizer.sep_token_id])])
            # boxes of the start and end tokens, as in LayoutLM
            ends = places.new_tensor([[0, 0, 0, 0], [1000, 1000, 1000, 1000]])
            bbox = torch.cat([ends[:1], places[owner], ends[1:]])
            states = self.model(input_ids=ids[None], bbox=bbox[None]).last_hidden_state[0, 1:-1]
            share = 1 / torch.bincount(owner, minlength=len(words)).clamp_min(1)[owner]
            out = out.index_add(0, owner, states * share[:, None])
        return out
