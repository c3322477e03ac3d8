// Naming heads: "5.1" is head 1 of layer 5, both from 0. In encoder–decoders
// "decoder:5.1" and "cross:5.1" are the decoder's; without a word before it,
// the encoder's.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/model.h"

namespace headwise {

struct HeadRef {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;
  int64_t head = 0;

  friend auto operator<=>(const HeadRef&, const HeadRef&) = default;
};

// "self", "decoder", "cross"
const char* Name(AttentionKind kind);
// "5.1", "cross:5.1"
std::string ToString(const HeadRef& head);

// "5.1,6.0". Throws Error(kInvalidArgument) with the valid range for a head
// that the model does not have.
std::vector<HeadRef> ParseHeads(std::string_view text, const Model& model);

// The attention layers of one kind, or none.
std::vector<const AttentionLayer*> AttentionLayers(const Model& model,
                                                   AttentionKind kind);

// Every head: self, then decoder, then cross, by layer and head.
std::vector<HeadRef> AllHeads(const Model& model);

}  // namespace headwise
