"""The decoders of a deployment's reports, by the declared shape of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_dp.population.report_decoding import Decoder, DecoderMaker

from ..storage.deployment import Deployment

if TYPE_CHECKING:
    from stream_dp.population.shapes.decoder import ShapeReader


def decoder_maker(deployment: Deployment) -> DecoderMaker:
    """Makes the decoder of a deployment's reports. Raises UserError."""
    declared = deployment.run.input
    if declared.plain:
        return Decoder
    from stream_dp.population.shapes.decoder import ShapedDecoder  # plain reports do without it

    from .schema_source import schema_source

    source = schema_source(declared, deployment.base)
    return lambda study, key: ShapedDecoder(study, key, declared, source)


def shape_reader(deployment: Deployment) -> ShapeReader | None:
    """Reads single records into plain reports. None for plain input. Raises UserError."""
    declared = deployment.run.input
    if declared.plain:
        return None
    from stream_dp.population.shapes.decoder import ShapeReader
    from stream_dp.population.shapes.record_contents import Schemas

    from .schema_source import schema_source

    source = schema_source(declared, deployment.base)
    return ShapeReader(deployment.study, declared, None if source is None else Schemas(source))
