"""How the parts of the loop are compiled: linked into it and optimized there, once, never made to run alone.

numba would optimize every function by itself, make machine code of it, and do so again in each of its
callers: twice the time until a first simulation begins.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class LinkedOnly(JITCodeLibrary):  # type: ignore[misc]
    """Code for others to link: as it was lowered, without machine code of its own."""

    def finalize(self) -> None:
        """Link what it calls, and leave the rest to its callers."""
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerPart(NativeLowering):  # type: ignore[misc]
    """Lower a part for its callers alone; in Python there is only a handle of it."""

    _name = "lower_part"

    def run_pass(self, state: Any) -> bool:
        """Lower into a library that is linked only."""
        state.library = LinkedOnly(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        named = lowered.fndesc
        handle = _dynfunc.make_function(
            named.lookup_module(), named.qualname, "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(handle, named, [state.library])
        state["cr"] = lowered._replace(cfunc=handle)
        return True


class PartCompiler(CompilerBase):  # type: ignore[misc]
    """numba's own passes, with the last one replaced."""

    def define_pipelines(self) -> list[Any]:
        """One pipeline, as every compiler of numba gives them."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.add_pass_after(LowerPart, NativeLowering)
        pipeline.passes = [(kind, told) for kind, told in pipeline.passes if kind is not NativeLowering]
        pipeline.finalize()
        return [pipeline]
