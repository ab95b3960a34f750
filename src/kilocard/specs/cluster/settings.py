"""An engine's settings as a cluster file writes them: in vLLM's names, for all pools or for one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from kilocard.specs.cluster.access import Secret
from kilocard.specs.cluster.secrets import SECRET_FLAGS, is_secret_name
from kilocard.specs.engine import EngineSpec, VllmSettings

MOST_ARGS, MOST_VARIABLES, LONGEST_VALUE = 200, 200, 4096
FLAG_ENDS = re.compile(r"[=\s]")
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Text = Annotated[str, Field(max_length=LONGEST_VALUE, pattern=r"^[^\x00-\x1f\x7f]*$")]
OWN_FLAGS = {
    "--model": "it is the cluster's `model`, or weights.path",
    "--served-model-name": "it is the cluster's `model`",
    "--host": "engines of one box listen on loopback alone",
    "--port": "it is the pool's `port`",
    "--shutdown-timeout": "it is lifecycle.stop_s",
}
"""vLLM's flags that stand elsewhere in the file."""


class EngineKeys(VllmSettings):
    """An engine's settings; one left out is the cluster's, else vLLM's own default.

    `extra_args` are passed to vLLM as they are, `environment` is added to its own; a secret stands there as
    {file: PATH} or {variable: NAME}.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "model": "it stands in the pool, or at the top",
        "served_model_name": "it is the pool's `model`",
        "tp": "did you mean 'tensor_parallel_size'?",
        "dp": "did you mean 'data_parallel_size'?",
        "pp": "did you mean 'pipeline_parallel_size'?",
        "api_key": "no key stands in the file: gateway.engine_key: {file: PATH} or {variable: NAME}",
    }

    extra_args: tuple[Text, ...] = Field(default=(), max_length=MOST_ARGS)
    environment: dict[VariableName, Text | Secret] = Field(default_factory=dict, max_length=MOST_VARIABLES)

    @model_validator(mode="after")
    def _no_flag_is_said_twice(self) -> Self:
        fields = {f"--{name.replace('_', '-')}": f"write it as {name}" for name in EngineSpec.model_fields}
        for argument in self.extra_args:
            flag = FLAG_ENDS.split(argument.strip(), maxsplit=1)[0].replace("_", "-")
            if flag in SECRET_FLAGS:
                raise ValueError(
                    f"extra_args {flag} would show a secret to whoever lists processes: {SECRET_FLAGS[flag]}"
                )
            if hint := OWN_FLAGS.get(flag) or fields.get(flag):
                raise ValueError(f"extra_args {flag}: {hint}")
        return self

    @model_validator(mode="after")
    def _no_secret_is_plain(self) -> Self:
        for name, value in self.environment.items():
            if is_secret_name(name) and not isinstance(value, Secret):
                raise ValueError(
                    f"environment.{name} is a secret by its name, and no secret stands in the file: write "
                    "{file: PATH} or {variable: NAME}"
                )
        return self

    def over(self, common: EngineKeys) -> EngineKeys:
        """These settings, and where they say nothing the common ones; both environments together."""
        own = self.given()
        return EngineKeys.model_validate(
            {**common.given(), **own, "environment": {**common.environment, **self.environment}}
        )

    def given(self) -> dict[str, Any]:
        """What is set."""
        kept = self.model_dump(exclude_defaults=True, exclude={"environment"})
        return {**kept, "environment": dict(self.environment)} if self.environment else kept

    def spec(self, model: str, served_model_name: str) -> EngineSpec:
        """What one engine is asked to be."""
        own = {name: value for name, value in self.given().items() if name != "environment"}
        return EngineSpec(model=model, served_model_name=served_model_name, **own)
