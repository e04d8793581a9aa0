"""What can be wrong with a submission: each fault has one row of words, for every surface.

A check returns `Problem(code, field, value)`. The form, the steps of a check, the API and the page
of a submission take its sentence and its remedy from `WORDS`, so that all of them say the same.
A code with a dot has several sentences ("malformed_id.spaces"); what a program reads is the part
before the dot.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

UNPRINTABLE = re.compile("[\0\ud800-\udfff]")
"""What no page and no database takes: the null character, and halves of characters."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Step(StrEnum):
    """The steps of a check, in the order in which they are looked at."""

    MODEL = "Model"
    REVISION = "Revision"
    LICENCE = "Licence"
    WEIGHTS = "Weights"
    ARCHITECTURE = "Architecture"
    TOKENIZER = "Tokenizer"
    TEMPLATE = "Chat template"
    BASE = "Base model"
    PRECISION = "Precision and weights"
    ROOM = "Room on a worker"
    NEW = "Not measured before"
    SUBMITTING = "Submitting"
    """What is no step of a check: limits, accounts, fields that cannot be read."""


class Words(NamedTuple):
    """The sentence and the remedy of a fault; in braces `value` and the problem's details."""

    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Problem:
    """One fault at one field, with the value that is to blame."""

    fault: str
    """A row of `WORDS`."""
    field: str = "model"
    """Of the submission form; `form` is the form as a whole."""
    value: str = ""
    """The model's ID, or what was typed where that is to blame."""
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    """What else the sentence names."""
    offers: tuple[str, ...] = ()
    """IDs of models, one of which may have been meant."""
    wait_seconds: int = 0
    """After which the same may be asked again; 0 where waiting would not help."""
    consequence: str = ""
    """What follows from it, said after the sentence."""

    @property
    def code(self) -> str:
        """What a program tells this fault from others by."""
        return self.fault.partition(".")[0]

    @property
    def message(self) -> str:
        return self._worded(WORDS[self.fault].message) + self.consequence

    @property
    def remedy(self) -> str:
        return self._worded(WORDS[self.fault].remedy)

    @property
    def step(self) -> Step:
        """The step of a check that this fault belongs to.

        What is wrong with the model under an adapter belongs to the base model, whatever it is.
        """
        return Step.BASE if self.field == "base" else STEP_OF[self.fault]

    def _worded(self, sentence: str) -> str:
        values = {**self.details, "value": self.value, "wait": self.wait_seconds}
        return UNPRINTABLE.sub(REPLACEMENT, sentence.format(**values))

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class Refused(Exception):
    """Nothing was submitted, for these reasons."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__(" ".join(map(str, problems)))


class HubSilent(Exception):
    """The Hub gave no usable answer: nothing is known of the model."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


ID_REMEDY = "Give it as in the address of its page on the Hub: owner/name."
MINUTES = "Try again in a few minutes."
SAVE_AGAIN = "Save the model with save_pretrained() and push it again."
SAVE_SAFETENSORS = (
    "Save it with save_pretrained(safe_serialization=True) and push model.safetensors."
)
SAVE_ADAPTER = "Save it again with save_pretrained() of peft."
NATIVE = "Submit a version whose architecture is part of transformers"
ASK_OPERATOR = "or ask the operator of this site to read the code and to list it."
OWN_CODE = "{value} needs its own code ({needs} is not in transformers), and "
SEND_OBJECT = 'Send one JSON object, as in {{"model": "owner/name"}}.'

BY_STEP: dict[Step, dict[str, Words]] = {
    Step.MODEL: {
        "malformed_id.empty": Words("No model ID was given.", ID_REMEDY),
        "malformed_id.unseen": Words(
            "“{value}” contains a character that cannot be seen.", ID_REMEDY
        ),
        "malformed_id.site": Words(
            "“{value}” is not an address of the Hugging Face Hub.", ID_REMEDY
        ),
        "malformed_id.page": Words("“{value}” is not the address of a model.", ID_REMEDY),
        "malformed_id.spaces": Words(
            "“{value}” contains a space, which no model ID does.", ID_REMEDY
        ),
        "malformed_id.slashes": Words("“{value}” has more than one slash.", ID_REMEDY),
        "malformed_id.length": Words("The model ID is longer than {limit} characters.", ID_REMEDY),
        "malformed_id.characters": Words(
            "“{value}” is not a model ID: each part has letters, digits, “-”, “_”, “.”, no “--” "
            "or “..”, begins and ends with a letter, digit or “_”, and is at most 96 characters "
            "long.",
            ID_REMEDY,
        ),
        "not_a_model": Words(
            "{value} is a {kind}, not a model.", "Give the ID of a repository with model weights."
        ),
        "unknown_model": Words(
            "There is no model {value} on the Hub, or it is private.",
            "Check the spelling on its page; a private model has to be made public first.",
        ),
        "unknown_model.near": Words(
            "There is no model {value} on the Hub, or it is private.",
            "Did you mean one of these? A private model has to be made public first.",
        ),
        "no_owner": Words(
            "“{value}” is a name without its owner: an ID has both, owner/name.",
            "Copy the ID from the model's page.",
        ),
        "no_owner.near": Words(
            "“{value}” is a name without its owner: an ID has both, owner/name.",
            "Choose one of those on the Hub:",
        ),
        "gated": Words(
            "{value} is gated: its files are only for people whom its authors have let in.",
            "Submit a model that anyone can download, so that others can check the scores.",
        ),
        "disabled": Words(
            "The Hub has disabled {value}.",
            "Its authors can ask the Hub why; submit another model.",
        ),
        "renamed": Words("The Hub knows {old} as {value} now; that name is used."),
        "hub_down": Words("The Hub at {address} cannot be reached ({reason}).", MINUTES),
        "hub_error.status": Words("The Hub answered with an error ({status}).", MINUTES),
        "hub_error.unreadable": Words("The Hub's answer could not be read ({reason}).", MINUTES),
        "hub_slow": Words("The Hub did not answer within {seconds:g} s.", "Try again in a minute."),
        "hub_busy": Words(
            "The Hub takes no more requests from us for now (429).", "Try again in {pause}."
        ),
        "hub_pending": Words("The Hub has not answered yet.", "It is being asked: ask again."),
        "checks_full": Words(
            "Very many models are being checked at the moment.", "Check again in {wait} s."
        ),
    },
    Step.REVISION: {
        "malformed_revision": Words(
            "“{value}” is not the name of a branch or tag, nor a commit.",
            "Leave the field empty for the main branch.",
        ),
        "revision_twice": Words(
            "The model ID names revision “{other}”, this field “{value}”.", "Take one of them out."
        ),
        "unknown_revision": Words(
            "{model} has no branch, tag or commit “{value}”.",
            "Leave the field empty for the main branch, or copy the name from the model's page.",
        ),
    },
    Step.LICENCE: {
        "no_licence": Words(
            "None is stated.",
            "It is evaluated all the same; its authors can name one in the model's card.",
        ),
    },
    Step.WEIGHTS: {
        "pickle_only": Words(
            "{value} has its weights in pickle files only ({file}), which can run code.",
            SAVE_SAFETENSORS,
        ),
        "gguf_only": Words(
            "{value} has its weights in GGUF files only ({file}), which are not evaluated.",
            "Submit the repository that the GGUF files were made from.",
        ),
        "no_safetensors": Words(
            "{value} has neither model.safetensors nor model.safetensors.index.json.",
            SAVE_SAFETENSORS,
        ),
        "no_safetensors.adapter": Words(
            "{value} is an adapter without adapter_model.safetensors.", SAVE_ADAPTER
        ),
        "missing_shard": Words(
            "model.safetensors.index.json of {value} names {files}, which the repository does not "
            "have.",
            "Push every file that save_pretrained() wrote.",
        ),
        "empty_weights": Words(
            "The model.safetensors of {value} is empty: it holds no weights.", SAVE_AGAIN
        ),
        "wrong_size": Words(
            "{file} of {value} has {size:,} bytes, {compared} than the {expected:,} that its own "
            "head says{more}.",
            "Push the files again as save_pretrained() wrote them: an upload may have broken off.",
        ),
        "unknown_size": Words(
            "The number of parameters of {value} cannot be read from its safetensors files.",
            "Save the model with save_pretrained() and push it again: a file may be cut short.",
        ),
        "unknown_size.adapter": Words(
            "The adapter_model.safetensors of {value} cannot be read, or holds no weights.",
            SAVE_ADAPTER,
        ),
        "other_count": Words(
            "The Hub says that {value} has {counts} parameters; its files of weights hold "
            "{held:,}, and these are counted."
        ),
        "quantised": Words(
            "{value} is quantised ({method}); of quantised weights those of {libraries} are "
            "evaluated.",
            "Submit the model that it was made from.",
        ),
        "model_and_adapter": Words(
            "{value} holds a whole model and an adapter (adapter_config.json), so which of the two "
            "is meant cannot be told.",
            "Remove what belongs to the adapter, or publish it by itself.",
        ),
        "adapter_of_prompts": Words(
            "{value} is an adapter of the kind {kind}: tokens before the text, which are not "
            "evaluated.",
            "Submit an adapter that lies in the model's layers.",
        ),
        "unknown_adapter": Words(
            "The adapter_config.json of {value} says peft_type: {kind}, and the installed peft "
            "knows no such kind.",
            SAVE_ADAPTER,
        ),
    },
    Step.ARCHITECTURE: {
        "no_config": Words(
            "{value} has no config.json.",
            "Submit a repository in the format of transformers: save_pretrained() writes it.",
        ),
        "broken_config": Words(
            "The config.json of {value} cannot be read: {reason}.",
            "Repair the file and push it again.",
        ),
        "broken_config.adapter": Words(
            "The adapter_config.json of {value} cannot be read: {reason}.", SAVE_ADAPTER
        ),
        "no_architecture": Words(
            "The config.json of {value} does not say which architecture it is for.",
            "Add “architectures” to it: save_pretrained() writes it.",
        ),
        "unknown_architecture": Words(
            "{value} is a {architecture}, which the installed transformers does not know.",
            "Check the name in config.json; a new architecture can be submitted once it is in a "
            "transformers release that the workers have.",
        ),
        "not_generative": Words(
            "{value} is a {architecture}, not a causal language model: it gives no probability to "
            "a continuation.",
            "Submit the version with a language-model head (…ForCausalLM).",
        ),
        "not_generative.senses": Words(
            "{value} is a {architecture}, a model that sees or hears, whose part for texts cannot "
            "be asked alone here.",
            "Submit the language model that it was made from.",
        ),
        "encoder_decoder": Words(
            "{value} is an encoder-decoder model ({architecture}); only causal (decoder-only) "
            "language models are evaluated.",
            "Submit a decoder-only model.",
        ),
        "unknown_model_type": Words(
            "The config.json of {value} says model_type: {model_type}, and the installed "
            "transformers knows no causal language model of that type, whatever architecture "
            "({architecture}) is named.",
            "Correct it: save_pretrained() writes the type that goes with the architecture.",
        ),
        "unknown_model_type.unstated": Words(
            "The config.json of {value} does not say which model_type it is of.",
            "Correct it: save_pretrained() writes the type that goes with the architecture.",
        ),
        "unknown_stored_dtype": Words(
            "The config.json of {value} says {key}: “{dtype}”, which PyTorch does not know.",
            "Write float32, bfloat16 or float16: that in which the weights are stored.",
        ),
        "impossible_size": Words(
            "config.json of {value} says {key}: {number}; a model has from 0 to {limit:,} {unit}.",
            "Correct config.json: save it again with save_pretrained().",
        ),
        "vocabulary_too_large": Words(
            "The config.json of {value} has a vocabulary of {tokens} tokens with {width} numbers "
            "each, more than the {held:,} parameters of its weights.",
            "Correct vocab_size in config.json and push it again.",
        ),
        "other_table": Words(
            "The table of tokens of {value} has {rows:,} rows, and its config.json says "
            "vocab_size: {tokens:,}.",
            "Save the model again with save_pretrained(), which writes both alike.",
        ),
        "custom_code.never": Words(OWN_CODE + "code from the Hub is never run here.", f"{NATIVE}."),
        "custom_code.unlisted": Words(
            OWN_CODE + "the operator of this site has not listed {value} at commit {commit}.",
            f"{NATIVE}, {ASK_OPERATOR}",
        ),
        "custom_code.commit": Words(
            OWN_CODE + "the operator of this site has not listed {value} at commit {commit}.",
            f"Submit the revision {{listed}}, {ASK_OPERATOR}",
        ),
        "custom_code.several": Words(
            OWN_CODE + "takes it from several repositories ({repositories}).",
            "Put the code into one repository.",
        ),
        "custom_code.elsewhere": Words(
            OWN_CODE + "takes code from {repository}, which the operator has not listed.",
            f"{NATIVE}, {ASK_OPERATOR}",
        ),
        "custom_code.commits": Words(
            OWN_CODE + "takes code from {repository}, which is listed at several commits.",
            "The operator of this site has to list one of them.",
        ),
        "own_code": Words(
            "Its own code is run, which the operator of this site has listed as trusted: "
            "{repositories}.",
            "It has no network, and can write nowhere else.",
        ),
        "no_worker_for_code": Words(
            "No worker that is running may run a model's own code.",
            "Submit it again when one runs that keeps such code from everything else.",
        ),
    },
    Step.TOKENIZER: {
        "no_tokenizer": Words(
            "{value} has no tokenizer files.",
            "Add them with tokenizer.save_pretrained(): tokenizer.json at the least.",
        ),
        "file_size.empty": Words(
            "{file} of {value} is empty.", "Save it again with save_pretrained(), and push it."
        ),
        "file_size.large": Words(
            "{file} of {value} has {size:,} bytes, of which {limit:,} are the most.",
            "Save it again with save_pretrained(), and push it.",
        ),
    },
    Step.TEMPLATE: {
        "no_template": Words(
            "{value} has no chat template.",
            "Choose plain text, or add the template to its tokenizer and push it again.",
        ),
        "no_default_template": Words(
            "{value} has chat templates with names ({names}) and none that is its default, in "
            "which models are asked here.",
            "Choose plain text, or add the one that is meant as chat_template.jinja.",
        ),
        "refuses_system": Words(
            "The chat template of {value} refuses a system turn (“{words}”): its runs fail on "
            "benchmarks that begin with an instruction, such as MMLU.",
            "Choose plain text, or submit a version whose template writes the instruction.",
        ),
    },
    Step.BASE: {
        "no_base.unnamed": Words("{value} does not say which model it is put on.", ID_REMEDY),
        "no_base.elsewhere": Words(
            "{value} was trained on “{named}”, which is no model on the Hub.", ID_REMEDY
        ),
        "no_adapter": Words(
            "{value} is a whole model, which is put on no other.", "Leave this field empty."
        ),
        "adapter": Words(
            "{value} is an adapter itself.",
            "Name the whole model that both are put on, with the other adapter merged into it.",
        ),
        "another_base": Words(
            "{adapter} says that it was trained on {named}; it would be put on {value}.",
            "If that is not the same model under another name, its score means nothing.",
        ),
    },
    Step.PRECISION: {
        "packed_already": Words(
            "{value} is quantised already ({method}).", "Leave its weights as stored."
        ),
        "plain_models_only": Words(
            "{kind} are computed by transformers alone on this site.",
            "Choose transformers, or a whole model with its weights as stored.",
        ),
        "no_worker_for_dtype": Words("No worker that is running computes in {value}.", "{choices}"),
        "no_worker_for_packing.chosen": Words(
            "No worker that is running has {library}, which computes such weights.",
            "Choose as stored.",
        ),
        "no_worker_for_packing.stored": Words(
            "No worker that is running has {library}, which computes such weights.",
            "Submit the model that it was made from.",
        ),
        "no_worker_for_engine": Words(
            "No worker that is running computes with {value}.", "{choices}"
        ),
    },
    Step.ROOM: {
        "too_large": Words(
            "{value} needs {needed} in {precision} ({parameters:,} parameters); the largest worker "
            "has {largest}.",
            "Submit a smaller model, or again when a larger worker runs.",
        ),
        "too_large.precision": Words(
            "{value} needs {needed} in {precision} ({parameters:,} parameters); the largest worker "
            "has {largest}.",
            "{choices}",
        ),
        "no_worker": Words("No worker is running at the moment.", "The runs will wait for one."),
    },
    Step.NEW: {
        "submitted_before": Words(
            "{variant} was submitted before.",
            "See the earlier submission, or choose another revision or precision.",
        ),
        "failed_before": Words(
            "{variant} was submitted before; {failed} of its runs failed or were stopped.",
            "Submitting again repeats only these.",
        ),
        "same_weights": Words(
            "{value} has the same weights as {twin}, which is here already: its files are equal "
            "byte for byte.",
            "See the results of {twin} before you spend {runs} runs on a copy.",
        ),
    },
    Step.SUBMITTING: {
        "required": Words("No model ID was given.", ID_REMEDY),
        "max_length": Words(
            "The field “{label}” is longer than {limit} characters.",
            "Copy the value from the model's page on the Hub.",
        ),
        "null_characters_not_allowed": Words(
            "There is a null character in the field “{label}”, which no name has.", "Type it again."
        ),
        "invalid_choice": Words(
            "“{value}” is not a choice for the field “{label}”.",
            "Choose {choices}, or leave it empty: {default}.",
        ),
        "departed": Words(
            "The author of {value} took it out of the ranking, so it is not evaluated.",
            "Its author can bring it back: see Corrections, at the foot of every page.",
        ),
        "quota": Words(
            "The limit for {whose} is {submissions} in 24 hours.",
            "The next one can be submitted at {frees_up}.",
        ),
        "quota.none": Words(
            "The limit for {whose} is {submissions} in 24 hours.",
            "None is taken at the moment; About says whom to ask.",
        ),
        "throttled.checks": Words(
            "More than {limit} models were checked {whose} in a minute.", "Check again in {wait} s."
        ),
        "throttled.votes": Words(
            "More than {limit} votes came from your network in a minute.", "Vote again in {wait} s."
        ),
        "throttled.pages": Words("{reason}", "Ask again in {wait} s."),
        "vote": Words("{reason}"),
        "role": Words(
            "The account {value} may not submit models.", "Ask who runs this site why: see About."
        ),
        "sign_in": Words("Models are submitted with an account.", "Sign in first."),
        "no_suite": Words(
            "The suite “{value}” of this site is not in its database.",
            "Its operator has to run: python manage.py sync_tasks",
        ),
        "content_type": Words(
            "The body is {value}, not JSON.", "Send Content-Type: application/json."
        ),
        "too_long": Words(
            "The body is longer than {limit:,} bytes, or of unknown length.", SEND_OBJECT
        ),
        "no_json": Words("The body is no JSON: {reason}.", SEND_OBJECT),
        "no_object": Words("The body is no JSON object.", SEND_OBJECT),
        "unknown_field": Words("There is no field “{value}”.", "Known are {known}."),
        "given_twice": Words("The field “{value}” is given twice.", "Take one of them out."),
        "no_text": Words(
            "The field “{value}” is no text that can be written as UTF-8.",
            "Give it as text in quotation marks, or leave it out.",
        ),
        "method": Words("This address takes {value} alone.", "Send it as {value}."),
        "no_account": Words("{reason}", "{way_in}"),
        "unknown_submission": Words(
            "There is no submission {value} here.", "Take the id from the answer to the submission."
        ),
    },
}
WORDS = {fault: words for faults in BY_STEP.values() for fault, words in faults.items()}
STEP_OF = {fault: step for step, faults in BY_STEP.items() for fault in faults}
