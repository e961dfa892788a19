"""The one loop that all training goes through: Adam on shuffled pages, watched, and resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from ..runs import Checkpoint
from .features import Item, collate
from .methods import Network

# the share of words whose vector a network does not see in training
LEFT_OUT = 0.1
Progress = Callable[[str, int, int], None]


@dataclass
class Watch:
    """Who is told, and where a run is kept."""

    progress: Progress = lambda what, done, total: None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the start, those before an interruption included."""
        return time.monotonic() - self.started


def batches(items: Sequence[Item], size: int, generator: torch.Generator) -> Iterator[list[Item]]:
    """All pages once, in random batches of pages of like length, so that little is padded."""
    noise = torch.rand(len(items), generator=generator)
    # lengths blurred by half, so that a page does not always meet the same ones
    order = sorted(range(len(items)), key=lambda k: len(items[k].page) * (0.75 + 0.5 * float(noise[k])))
    chunks = [order[k : k + size] for k in range(0, len(order), size)]
    for k in torch.randperm(len(chunks), generator=generator).tolist():
        yield [items[j] for j in chunks[k]]


def vary(item: Item, generator: torch.Generator) -> Item:
    """A page as it might have been: a part of it, shifted, larger or smaller, some word vectors left out.

    There are few pages. A part is a stretch of words in order; how two words stand to each other does not change.
    """
    n = len(item.page)
    share, place, shift_x, shift_y, scale = torch.rand(5, generator=generator).tolist()
    # half of the pages whole, of the others 40% or more
    n_kept = max(2, round(n * min(1.0, 0.4 + 1.2 * share)))
    first = int(place * (n - n_kept + 1))
    part = slice(first, first + n_kept)
    words = item.words[part] * (torch.rand(n_kept, 1, generator=generator) >= LEFT_OUT)
    shift = torch.tensor([shift_x, shift_y, shift_x, shift_y]) * 0.16 - 0.08
    boxes = ((item.boxes[part] - 0.5) * (0.85 + 0.3 * scale) + 0.5 + shift).clamp(0, 1)
    page = replace(item.page, words=item.page.words[part], boxes=boxes.numpy(), block=item.page.block[part])
    return Item(page, words, boxes, item.geometry[part, part], item.truth[part, part])


def train(network: Network, items: Sequence[Item], epochs: int, rate: float, weight_rate: float, batch_size: int,
          seed: int, watch: Watch, what: str = "training") -> list[float]:
    """Train for some epochs, with one warm-up and a cosine down to zero; the mean loss of each epoch.

    What an interrupted run had is taken up again, and the end is the same.
    """
    rules = [] if network.layer is None else list(network.layer.parameters())
    ids = {id(parameter) for parameter in rules}
    rest = [parameter for parameter in network.parameters() if parameter.requires_grad and id(parameter) not in ids]
    optimizer = torch.optim.AdamW([{"params": rest, "lr": rate, "weight_decay": 0.01},
                                   {"params": rules, "lr": weight_rate, "weight_decay": 0.0}])
    per_epoch = -(-len(items) // batch_size)
    steps = epochs * per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [rate, weight_rate], max(steps, 2), pct_start=0.1)
    torch.manual_seed(seed)
    losses: list[float] = []
    stood = watch.checkpoint.load()
    if stood is not None:
        network.load_state_dict(stood["network"])
        optimizer.load_state_dict(stood["optimizer"])
        schedule.load_state_dict(stood["schedule"])
        torch.set_rng_state(stood["random"])
        losses = list(stood["losses"])
        watch.started -= stood["seconds"]
    for epoch in range(len(losses), epochs):
        # drawn from the seed and the epoch alone: all rows see the same batches
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        network.train()
        total = 0.0
        for k, chunk in enumerate(batches(items, batch_size, generator)):
            optimizer.zero_grad()
            loss = network.loss(collate([vary(item, generator) for item in chunk]))
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
            watch.progress(what, epoch * per_epoch + k + 1, steps)
        losses.append(round(total / per_epoch, 5))
        watch.checkpoint.save(network=network.state_dict(), optimizer=optimizer.state_dict(),
                              schedule=schedule.state_dict(), random=torch.get_rng_state(), losses=losses,
                              seconds=watch.seconds)
    return losses
