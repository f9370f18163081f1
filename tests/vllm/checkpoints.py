"""Tiny checkpoints with random weights, of the architectures that judges have.

Float32, seeded, and spread so that different images give visibly different answers. The
image processors' size limits let images of 56 or 64 pixels a side through unresized, so that
both sides of a comparison see the same pixels, whichever library they resize with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf

from editjudge_services.aesthetics.artimuse_service import LEVELS
from editjudge_services.zoo.torch_tools import randomise_weights

from .vocabulary import INTERN_SPECIAL, QWEN_SPECIAL, SPLIT, WHOLE, tokenizer

MAX_POSITION = 8192
INTERN_SIDE = 56
_SEED = 11
_QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
_QWEN_VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def make_qwen3(folder: Path) -> Path:
    """Qwen3-VL whose tokenizer keeps every label whole."""
    return _qwen3(folder / "qwen3-vl-whole-untrained", WHOLE)


def make_qwen3_split(folder: Path) -> Path:
    """Qwen3-VL whose tokenizer splits `excellent` and `poor`, as Qwen's own does."""
    return _qwen3(folder / "qwen3-vl-split-untrained", SPLIT)


RATINGS = (1.25, 2.0, 3.5, 4.75)


def make_qinsight(folder: Path) -> Path:
    """Qwen2.5-VL, which Q-Insight is; it always rates, and at random.

    Left alone, random weights say nothing that can be read. Here each of four whole answers is
    a token: one of them is said first, whichever the picture makes likeliest, and then the end.
    """
    tokens = tokenizer(WHOLE, QWEN_SPECIAL, _template(_QWEN_IMAGE, _QWEN_VIDEO))
    answers = [f'<answer>{{"rating": {one}}}</answer>' for one in RATINGS]
    tokens.add_tokens(answers)
    said = tokens.convert_tokens_to_ids(answers)
    vision = {"depth": 2, "patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]}
    config = hf.Qwen2_5_VLConfig(
        text_config=dict(**_text(tokens), num_hidden_layers=2, rope_parameters=_rope(1e6)),
        vision_config=_QWEN_VISION | vision,
        **_qwen_ids(tokens),
    )
    return _save(
        folder / "q-insight-untrained",
        lambda: hf.Qwen2_5_VLForConditionalGeneration(config),
        tokens,
        "Qwen2_5_VLProcessor",
        _qwen_images(14),
        _qwen_images(14) | {"video_processor_type": "Qwen2VLVideoProcessor"},
        lambda model: _says_one_of(model, said, tokens.eos_token_id),
    )


def make_artimuse(folder: Path) -> Path:
    """InternVL in transformers' layout; the levels 0..100 are tokens, and one tile an image."""
    image = "<IMG_CONTEXT>"
    named = {"start_image_token": "<img>", "end_image_token": "</img>"}
    named |= {"context_image_token": image, "video_token": "<video>"}
    levels = [(level,) for level in LEVELS]
    tokens = tokenizer(levels, INTERN_SPECIAL, _template(f"{image}\n", "<video>\n"), named)
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes = {"intermediate_size": 64, "image_size": [INTERN_SIDE] * 2, "patch_size": [14, 14]}
    config = hf.InternVLConfig(
        vision_config={**vision, **sizes, "use_absolute_position_embeddings": True},
        text_config=dict(model_type="qwen2", num_hidden_layers=2, **_text(tokens)),
        image_token_id=tokens.convert_tokens_to_ids(image),
        image_seq_length=(INTERN_SIDE // 14) ** 2 // 4,
        downsample_ratio=0.5,
        tie_word_embeddings=False,
    )
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    size = {"height": INTERN_SIDE, "width": INTERN_SIDE}
    shared = {"size": size, "image_mean": mean, "image_std": std}
    one = {"crop_to_patches": False, "min_patches": 1, "max_patches": 1}
    images = {"image_processor_type": "GotOcr2ImageProcessor", **shared, **one, **_STEPS}
    videos = {**shared, "video_processor_type": "InternVLVideoProcessor"}
    return _save(
        folder / "artimuse-untrained",
        lambda: hf.InternVLForConditionalGeneration(config),
        tokens,
        "InternVLProcessor",
        images,
        videos,
        image_seq_length=config.image_seq_length,
    )


MAKERS: dict[str, Callable[[Path], Path]] = {
    "whole": make_qwen3,
    "split": make_qwen3_split,
    "qinsight": make_qinsight,
    "artimuse": make_artimuse,
}

_STEPS: dict[str, Any] = {
    "do_convert_rgb": True,
    "do_resize": True,
    "resample": 3,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
}
_QWEN_VISION = {"hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}


def _rope(theta: float, **more: bool) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta, "mrope_section": [8, 4, 4], **more}


def _qwen3(folder: Path, words: tuple[tuple[str, ...], ...]) -> Path:
    tokens = tokenizer(words, QWEN_SPECIAL, _template(_QWEN_IMAGE, _QWEN_VIDEO))
    rope = _rope(5e6, mrope_interleaved=True)
    vision = {"depth": 3, "patch_size": 16, "num_position_embeddings": 64}
    config = hf.Qwen3VLConfig(
        text_config=dict(**_text(tokens), num_hidden_layers=3, head_dim=32, rope_parameters=rope),
        vision_config={**_QWEN_VISION, **vision, "deepstack_visual_indexes": [0, 1, 2]},
        **_qwen_ids(tokens),
    )
    return _save(
        folder,
        lambda: hf.Qwen3VLForConditionalGeneration(config),
        tokens,
        "Qwen3VLProcessor",
        _qwen_images(16),
        _qwen_images(16) | {"video_processor_type": "Qwen3VLVideoProcessor"},
    )


def _says_one_of(model: Any, answers: list[int], end: int) -> None:
    """Let a model answer with one of these tokens and the end of the turn.

    One coordinate is high in the embedding of every token but the answers, where it is as low;
    their output rows read it, that of the end its opposite, and no other row reads it. The other
    coordinates choose among the answers.
    """
    at, high, sure = 0, 10.0, 30.0
    with torch.no_grad():
        read, said = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        read[:, at] = high
        read[answers, at] = -high
        said[:, at] = 0
        said[answers, at] = sure
        said[end] = 0
        said[end, at] = -sure


def _text(tokens: hf.PreTrainedTokenizerFast) -> dict[str, Any]:
    return {
        "vocab_size": len(tokens),
        # Heads of 32: the smallest that vLLM's attention on a CPU has.
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": MAX_POSITION,
        "bos_token_id": tokens.pad_token_id,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad_token_id,
    }


def _qwen_ids(tokens: hf.PreTrainedTokenizerFast) -> dict[str, Any]:
    number = tokens.convert_tokens_to_ids
    return {
        "image_token_id": number("<|image_pad|>"),
        "video_token_id": number("<|video_pad|>"),
        "vision_start_token_id": number("<|vision_start|>"),
        "vision_end_token_id": number("<|vision_end|>"),
        "tie_word_embeddings": False,
    }


def _qwen_images(patch: int) -> dict[str, Any]:
    side = 2 * patch
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": patch,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "size": {"shortest_edge": side * side, "longest_edge": 64 * side * side},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        **_STEPS,
    }


def _template(image: str, video: str) -> str:
    """ChatML with placeholders for media: our own."""
    return (
        "{%- for message in messages -%}"
        "{{ '<|im_start|>' + message.role + '\\n' }}"
        "{%- if message.content is string -%}{{ message.content }}"
        "{%- else -%}{%- for part in message.content -%}"
        f"{{%- if part.type == 'image' -%}}{{{{ {image!r} }}}}"
        f"{{%- elif part.type == 'video' -%}}{{{{ {video!r} }}}}"
        "{%- else -%}{{ part.text }}{%- endif -%}"
        "{%- endfor -%}{%- endif -%}"
        "{{ '<|im_end|>\\n' }}"
        "{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
    )


def _save(
    folder: Path,
    build: Callable[[], hf.PreTrainedModel],
    tokens: hf.PreTrainedTokenizerFast,
    processor: str,
    images: dict[str, Any],
    videos: dict[str, Any],
    changed: Callable[[Any], None] = lambda model: None,
    **more: Any,
) -> Path:
    model: Any = randomise_weights(build, gain=1.5, seed=_SEED)
    changed(model)
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    files = {
        "preprocessor_config.json": images | {"processor_class": processor},
        "video_preprocessor_config.json": videos | {"processor_class": processor},
    }
    if more:
        files["processor_config.json"] = more | {"processor_class": processor}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2))
    return folder
