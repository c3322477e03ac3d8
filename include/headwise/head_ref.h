// Heads of a model, as observations, profiles and rankings name them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"

namespace headwise {

class Transformer;  // model.h

/// Which attention of a model.
enum class AttentionKind : uint8_t {
  kSelf,     ///< self-attention of an encoder or a decoder-only model
  kDecoder,  ///< self-attention of an encoder–decoder's decoder
  kCross,
};

/// "self", "decoder", "cross"
HEADWISE_API const char* Name(AttentionKind kind);

/// One head of a model; layer and head are counted from 0.
struct HeadRef {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;
  int64_t head = 0;

  friend auto operator<=>(const HeadRef&, const HeadRef&) = default;
};
/// "5.1", "cross:5.1"
HEADWISE_API std::string ToString(const HeadRef& head);

/// Every head of a model: self, then decoder, then cross, by layer and head.
HEADWISE_API std::vector<HeadRef> HeadsOf(const Transformer& model);

/// "5.1,6.0", "cross:2.3". Throws Error(kInvalidArgument) with the valid range
/// for a head that the model does not have.
HEADWISE_API std::vector<HeadRef> ParseHeads(std::string_view text,
                                             const Transformer& model);

}  // namespace headwise
