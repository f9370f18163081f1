"""Tools for models of transformers: tiny tokenizers, loading without gaps, settings and the device."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from editjudge.base.errors import ConfigError

from ..runtime.serving import is_for_gpu

SETTINGS = "settings.json"
_END, _PAD = "<|im_end|>", "<|endoftext|>"


def make_byte_tokenizer(special: Sequence[str]) -> Any:
    """Make a byte-level BPE without merges, in which every byte is a token.

    Args:
        special: Special tokens in the order of their ids; Qwen's tokens end and pad a text.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {one: i for i, one in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {one: len(vocabulary) + i for i, one in enumerate(special)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    kind: Any = PreTrainedTokenizerFast
    tokenizer = kind(tokenizer_object=inner, eos_token=_END, pad_token=_PAD, padding_side="left")
    tokenizer.add_tokens(list(special), special_tokens=True)
    return tokenizer


def require_files(checkpoint: Path, *files: str) -> None:
    """Check that a folder has the files that an export reads.

    Raises:
        ConfigError: a file is missing.
    """
    for name in files:
        if not (checkpoint / name).is_file():
            raise ConfigError(f"{checkpoint / name} is missing", "pull the checkpoint again")


def load_network(kind: Any, folder: Path, **options: Any) -> Any:
    """Load a network of transformers, which itself would fill what is missing with random weights.

    Args:
        kind: Its class.
        options: Further arguments of `from_pretrained`.

    Raises:
        ConfigError: the checkpoint lacks weights, or has them in other shapes.
    """
    from transformers.utils import logging

    # Otherwise it lists what does not fit, also what is not loaded, such as the weights of CLIP's text tower.
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    strict = {"output_loading_info": True, "ignore_mismatched_sizes": True, "local_files_only": True}
    network, report = kind.from_pretrained(folder, **strict, **options)
    if wrong := sorted([*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])]):
        what = f"{len(wrong)} weights are missing or have another shape: {wrong[0]}, …"
        raise ConfigError(f"{folder}: {what}", "pull the checkpoint again")
    return network


def save_settings(folder: Path, settings: Mapping[str, float]) -> None:
    """Write a network's settings beside its weights."""
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2))


def load_settings(folder: Path) -> dict[str, Any]:
    """Load the settings that `save_settings` wrote."""
    settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text())
    return settings


def choose_device(parameters: Mapping[str, str]) -> str:
    """Choose the device of torch: "cuda" or "cpu".

    Args:
        parameters: The parameters of the model's `config.pbtxt`.

    Raises:
        ConfigError: the parameters demand a GPU, and torch has none.
    """
    if torch.cuda.is_available():
        return "cuda"
    if is_for_gpu(parameters):
        raise ConfigError(
            f"device gpu: torch {torch.__version__} has no CUDA here",
            "give it a GPU and a build of torch with CUDA, or say device cpu",
        )
    return "cpu"
