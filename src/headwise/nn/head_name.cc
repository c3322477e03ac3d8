// Names of heads. Door: include/headwise/head_ref.h.
#include <string>

#include "headwise/head_ref.h"

namespace headwise {

const char* Name(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kSelf:
      return "self";
    case AttentionKind::kDecoder:
      return "decoder";
    case AttentionKind::kCross:
      return "cross";
  }
  return "?";
}

std::string ToString(const HeadRef& head) {
  const std::string place =
      std::to_string(head.layer) + "." + std::to_string(head.head);
  return head.kind == AttentionKind::kSelf
             ? place
             : std::string(Name(head.kind)) + ":" + place;
}

}  // namespace headwise
