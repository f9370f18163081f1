"""What the official scripts of KRIS-Bench do otherwise than the paper, and its own baseline."""

from ..switches import Switches, switch


class KrisSwitches(Switches, use_attribute_docstrings=True):
    """All but `simple_prompts` are on in the protocol `official`."""

    original_prompts: bool = switch("utils/prompts.py and evaluate_with_gpt of every script")
    """The official prompts, imported; labels and order of the images are theirs too"""
    empty_instruction: bool = switch("evaluate_images of every script; not so in BAGEL's")
    """The judge is told neither instruction nor explanation: the scripts read fields
    (instruction, explain) that the data does not have (ins_en, explain_en)"""
    first_digit: bool = switch("metrics_common.py, extract_score_and_reason; metrics_knowledge.py, extract_*")
    """Replies are read by the official fallbacks, down to the first digit from 1 to 5 anywhere;
    none is asked for again"""
    anomaly_by_common_prompt: bool = switch('metrics_common.py, "abnormality_correction" in category')
    """Anomaly correction is judged by the common prompt, without the explanation: its own is
    chosen by a name that no folder has"""
    knowledge_ungated: bool = switch("metrics_knowledge.py, extract_dual_scores")
    """Knowledge plausibility stays as judged where the instruction got 2 or less"""
    temporal_jpeg: bool = switch("metrics_temporal_prediction.py, encode_image_to_base64")
    """Frames of temporal prediction are encoded again, as JPEG of quality 85"""
    missing_skipped: bool = switch("evaluate_images of every script; summarize.py of BAGEL")
    """What has no score, a missing output among it, leaves the weights of averages too, and a
    reasoning dimension without any leaves the average; --single-image has no rule"""
    pooled_metrics: bool = switch("summarize.py of BAGEL, type_all_values_flat")
    """Averages weigh every metric's values alike, so that items with four metrics weigh more"""
    simple_prompts: bool = switch("section 4.3 and figure 5 (Simple Prompts)")
    """The judge is asked one plain question for each score, without explanation, ground truth,
    steps and levels; in the place of original_prompts too"""
