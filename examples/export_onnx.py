"""Export the layer to ONNX, for any batch size and any number of entities, and run it without torch.

    pip install onnx onnxscript onnxruntime
    python examples/export_onnx.py
"""

import tempfile
from pathlib import Path

import onnxruntime
import torch

from logicmp import LogicMP


def main() -> None:
    layer = LogicMP("C(a,b) ^ C(b,c) => C(a,c)").eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transitivity.onnx"
        batch, n = torch.export.Dim("batch"), torch.export.Dim("n")
        torch.onnx.export(layer, (torch.randn(2, 6, 6),), path, dynamo=True, verbose=False,
                          dynamic_shapes=({0: batch, 1: n, 2: n},))
        session = onnxruntime.InferenceSession(path)
        for shape in ((2, 6, 6), (3, 11, 11)):
            logits = torch.randn(shape)
            (got,) = session.run(None, {session.get_inputs()[0].name: logits.numpy()})
            with torch.no_grad():
                want = layer(logits)
            difference = float((torch.from_numpy(got) - want).abs().max())
            print(f"{list(shape)}: largest difference from torch {difference:.1e}")


if __name__ == "__main__":
    main()
