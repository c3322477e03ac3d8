// The parts of a model by name, and the parameters that each has:
//
//   embedding, layer.3, layer.3.attention, layer.3.mlp, final, head
//
// and of several layers layer.0-3, layer.0-3.mlp. Encoder–decoders say
// encoder.… and decoder.…, and have decoder.layer.3.cross. A norm belongs to
// the half whose input, or output, it is. Gates and spans, which choose heads,
// belong to no part.
#pragma once

#include <set>
#include <span>
#include <string>

#include "headwise/model/model.h"

namespace headwise {

// Names of the parameters, as the checkpoint has them, of all these parts. A
// matrix that two parts share (tied embeddings) is in both. Throws
// Error(kInvalidArgument) with the nearest name for one that the model has not.
std::set<std::string> ParametersOf(const Model& model,
                                   std::span<const std::string> parts);

}  // namespace headwise
