"""The training loop of all methods: Adam on shuffled pages, with progress and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from logicmp.limits import Progress

from ..checkpoint import Checkpoint
from .features import Item, collate
from .methods import Model, Settings


def batches(items: Sequence[Item], size: int, generator: torch.Generator) -> Iterator[list[Item]]:
    """All pages once, in random batches of similar length, so that there is little padding."""
    noise = torch.rand(len(items), generator=generator)
    # lengths with noise of 25%, so that batches differ between epochs
    order = sorted(range(len(items)), key=lambda k: len(items[k].page) * (0.75 + 0.5 * float(noise[k])))
    chunks = [order[k : k + size] for k in range(0, len(order), size)]
    for k in torch.randperm(len(chunks), generator=generator).tolist():
        yield [items[j] for j in chunks[k]]


def vary(item: Item, generator: torch.Generator, hidden: float = 0.1) -> Item:
    """Augment a page: crop, shift and scale it, and hide a share of the word vectors.

    A crop is a sequence of consecutive words; the geometry of pairs does not change.
    """
    n = len(item.page)
    share, place, shift_x, shift_y, scale = torch.rand(5, generator=generator).tolist()
    # half of the pages stay whole; the others keep 40% or more
    n_kept = max(2, round(n * min(1.0, 0.4 + 1.2 * share)))
    first = int(place * (n - n_kept + 1))
    part = slice(first, first + n_kept)
    words = item.words[part] * (torch.rand(n_kept, 1, generator=generator) >= hidden)
    shift = torch.tensor([shift_x, shift_y, shift_x, shift_y]) * 0.16 - 0.08
    boxes = ((item.boxes[part] - 0.5) * (0.85 + 0.3 * scale) + 0.5 + shift).clamp(0, 1)
    page = replace(item.page, words=item.page.words[part], boxes=boxes.numpy(), block=item.page.block[part])
    return Item(page, words, boxes, item.geometry[part, part], item.truth[part, part])


def train(model: Model, items: Sequence[Item], epochs: int, rate: float, settings: Settings, seed: int,
          progress: Progress, checkpoint: Checkpoint, what: str = "training",
          made_with: Mapping[str, Any] | None = None) -> list[float]:
    """Train with warm-up and a cosine to zero; return the mean loss of each epoch.

    An interrupted run continues after its last saved epoch, with the same outcome.
    """
    weight_rate, batch_size = settings.weight_rate, settings.batch
    rules = [] if model.layer is None else list(model.layer.parameters())
    ids = {id(parameter) for parameter in rules}
    rest = [parameter for parameter in model.parameters() if parameter.requires_grad and id(parameter) not in ids]
    optimizer = torch.optim.AdamW([{"params": rest, "lr": rate, "weight_decay": 0.01},
                                   {"params": rules, "lr": weight_rate, "weight_decay": 0.0}], fused=True)
    per_epoch = -(-len(items) // batch_size)
    steps = epochs * per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [rate, weight_rate], max(steps, 2), pct_start=0.1)
    torch.manual_seed(seed)
    losses: list[float] = []
    averaged = [parameter.detach().clone() for parameter in model.parameters()]
    before = checkpoint.load(made_with)
    if before is not None:
        model.load_state_dict(before["model"])
        optimizer.load_state_dict(before["optimizer"])
        schedule.load_state_dict(before["schedule"])
        torch.set_rng_state(before["random"])
        losses, averaged = list(before["losses"]), before["averaged"]
    for epoch in range(len(losses), epochs):
        # seed and epoch determine the batches: they are the same for all methods
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        model.train()
        model.is_layer_on = epoch >= settings.late * epochs
        total = 0.0
        for k, chunk in enumerate(batches(items, batch_size, generator)):
            optimizer.zero_grad()
            loss = model.loss(collate([vary(item, generator, settings.hidden) for item in chunk]))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                torch._foreach_lerp_(averaged, list(model.parameters()), 1 - settings.average)
            total += float(loss.detach())
            progress(what, epoch * per_epoch + k + 1, steps)
        losses.append(round(total / per_epoch, 5))
        checkpoint.save(model=model.state_dict(), optimizer=optimizer.state_dict(), schedule=schedule.state_dict(),
                        random=torch.get_rng_state(), losses=losses, averaged=averaged)
    model.is_layer_on = True
    with torch.no_grad():
        torch._foreach_copy_(list(model.parameters()), averaged)
    return losses
