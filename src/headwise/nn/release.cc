// Giving back what mapped weights hold. Door: release.h.
#include "headwise/nn/release.h"

#include "headwise/base/release_pages.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
void ReleaseWeight(const Parameter& weight) {
  if (weight.mapped) ReleasePages(weight.value.data, BytesOf(weight.value));
}

void ReleaseTable(const Parameter& table, size_t ids) {
  constexpr size_t kManyIds = 512;
  constexpr int64_t kLargeBytes = 64 << 20;
  if (ids >= kManyIds && BytesOf(table.value) >= kLargeBytes) {
    ReleaseWeight(table);
  }
}

}  // namespace headwise
