// Heads switched off, turned down or replaced by their means.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/tensor.h"

namespace headwise {

struct Profile;     // profile.h
struct TextInput;   // text_input.h
class Transformer;  // model.h

/// Mean outputs of heads before W_O by site ("layer.3.attention"), f32
/// [1, heads, E]. Shared and never changed.
using HeadMeans =
    std::shared_ptr<const std::map<std::string, Tensor, std::less<>>>;

/// Heads switched off or turned down: out = g · O + (1 − g) · μ.
struct HeadEdit {
  std::vector<HeadRef> drop = {};        ///< g = 0
  std::map<HeadRef, double> gates = {};  ///< g of these
  HeadMeans means = {};                  ///< μ (MeanOutputs); null: 0
};

/// The mean output of every head over a text: HeadEdit::means.
HEADWISE_API HeadMeans MeanOutputs(Transformer& model, const TextInput& text,
                                   const LossJob& job = {});

/// The means that a profile holds (ProfileJob::means). Throws
/// Error(kInvalidArgument) for a profile of another model, or one without.
HEADWISE_API HeadMeans MeanOutputs(Transformer& model, const Profile& profile);

}  // namespace headwise
