"""How the loop is compiled: its parts are linked into it and optimized there, once, never made to run alone.

numba would optimize every function by itself, make machine code of it, and do so again in each of its
callers: more than twice the time until a first simulation begins.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numba import _dynfunc, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.funcdesc import default_mangler
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)


class LinkedOnly(JITCodeLibrary):  # type: ignore[misc]
    """Code for others to link: as it was lowered, without machine code of its own."""

    def _optimize_functions(self, module: Any) -> None:
        """Leave this to whoever runs, and linking too."""

    def finalize(self) -> None:
        """Nothing is added from here on."""
        self._finalized = True

    def with_called(self) -> list[Any]:
        """This library, and those of all that it calls."""
        return list(dict.fromkeys((self, *self._linking_libraries)))


class OptimizedOnce(JITCodeLibrary):  # type: ignore[misc]
    """Code that runs, with all that it calls: optimized as a whole and not before.

    numba's other passes make room for its removal of reference counts, and there are none here.
    """

    def _optimize_functions(self, module: Any) -> None:
        """Leave this to the end."""

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerEntry(NativeLowering):  # type: ignore[misc]
    """Lower what Python calls."""

    _name = "lower_entry"

    def run_pass(self, state: Any) -> bool:
        """Lower into a library that can be kept on disk."""
        state.library = OptimizedOnce(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerPart(NativeLowering):  # type: ignore[misc]
    """Lower a part for its callers alone; in Python there is only a handle of it."""

    _name = "lower_part"

    def run_pass(self, state: Any) -> bool:
        """Lower into a library that is linked only."""
        library = LinkedOnly(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library = library
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        named = lowered.fndesc
        handle = _dynfunc.make_function(named.lookup_module(), named.qualname, "", 0, lowered.env, (library,))
        state.targetctx.insert_user_function(handle, named, library.with_called())
        state["cr"] = lowered._replace(cfunc=handle)
        return True


class PlainPasses(PassManager):  # type: ignore[misc]
    """Pass after pass: without a trace of each, which would spell out the types of all tables."""

    def run(self, state: Any) -> None:
        """Run them on one function."""
        for kind, _ in self.passes:
            one = _pass_registry.get(kind).pass_inst
            one.analysis = self._analysis
            for stage in (one.run_initialization, one.run_pass, one.run_finalizer):
                stage(state)


class EntryCompiler(CompilerBase):  # type: ignore[misc]
    """Those of numba's passes that plain functions over tables need: no closures, no inlining in Python, no
    arrays made."""

    lowering: type = LowerEntry

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.state.targetctx.mangler = short_symbol

    def define_pipelines(self) -> list[Any]:
        """One pipeline, as every compiler of numba gives them."""
        pipeline = PlainPasses(type(self).__name__)
        for passed in (
            TranslateByteCode,
            FixupArgs,
            IRProcessing,
            RewriteSemanticConstants,
            GenericRewrites,
            ReconstructSSA,
            NopythonTypeInference,
            PreLowerStripPhis,
            IRLegalization,
            AnnotateTypes,
            self.lowering,
            NoPythonBackend,
        ):
            pipeline.add_pass(passed, passed.__name__)
        pipeline.finalize()
        return [pipeline]


class PartCompiler(EntryCompiler):
    """The same for a part."""

    lowering = LowerPart


def short_symbol(name: str, argtypes: Sequence[Any], *, abi_tags: Any = (), uid: int | None = None) -> str:
    """The symbol of a function: numba's own spells out every field of the tables, at every call."""
    types_digest = hashlib.sha256(str(argtypes).encode()).hexdigest()[:12]
    symbol: str = default_mangler(f"{name}.{types_digest}", (), abi_tags=abi_tags, uid=uid)
    return symbol


@contextmanager
def in_haste() -> Iterator[None]:
    """Compile without looking for garbage, and without asking twice what an operator makes of two numbers."""
    collecting = gc.isenabled()
    asked = types.BaseFunction.get_call_type
    answers: dict[Any, Any] = {}

    def get_call_type(operator: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not all(isinstance(arg, PLAIN) for arg in args):
            return asked(operator, context, args, kws)
        key = (id(operator), args)
        if key not in answers:
            answers[key] = asked(operator, context, args, kws)
        return answers[key]

    gc.disable()
    types.BaseFunction.get_call_type = get_call_type
    try:
        yield
    finally:
        types.BaseFunction.get_call_type = asked
        if collecting:
            gc.enable()


PLAIN = (types.Number, types.Boolean, types.Literal)
