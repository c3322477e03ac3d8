// Columns of a head: its own, or those that it is run with (padding.h).
#pragma once

#include <cstdint>

namespace headwise {

struct HeadWidths {
  int64_t head_dim = 0;   // of q and k
  int64_t value_dim = 0;  // of v and out

  friend bool operator==(const HeadWidths&, const HeadWidths&) = default;
};

}  // namespace headwise
