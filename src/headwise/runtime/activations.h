// Named activations of a run, as tensors a person can open with NumPy.
//
//   embedding · layer.3.input · layer.3.attention.{query,key,value,probs,
//   head_output,output} · layer.3.mlp.output · layer.3.output · final · logits
//
// Encoder–decoders put "encoder." or "decoder." before, and have
// decoder.layer.3.cross.*. Names are matched with * and ?.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"
#include "headwise/runtime/session.h"

namespace headwise {

// Longer sequences have no dense probabilities: they are observed instead.
inline constexpr int64_t kMostDenseTokens = 4096;

bool MatchesPattern(std::string_view pattern, std::string_view name);

// Every name that a run of this model can give.
std::vector<std::string> ActivationNames(const Model& model);

// Where the sequences of a batch lie in the rows of what is returned.
struct PaddedRows {
  int64_t width = 0;               // positions of a row; 0: of the longest
  std::span<const int64_t> first;  // of each sequence; empty: 0
};
struct Padding {
  PaddedRows source;
  PaddedRows target;  // of encoder–decoders
};

// How much RecordActivations would return. Throws what it throws before a run.
uint64_t ActivationBytes(const Model& model, const ForwardInput& input,
                         const std::vector<std::string>& patterns,
                         const Padding& padding = {});

// Runs the model and returns the activations that match a pattern, by name.
// Rows of a ragged batch are padded with zeros: [B, width, …]; probs are
// [B, heads, queries, keys]. Before the run throws Error(kNotFound) with the
// nearest name for a pattern that matches nothing, and Error(kInvalidArgument)
// for probabilities of more than kMostDenseTokens. Hooks of the input come
// first: what they change is recorded changed.
std::map<std::string, Tensor> RecordActivations(
    Context& context, const Model& model, const ForwardInput& input,
    const std::vector<std::string>& patterns, const Padding& padding = {});

}  // namespace headwise
