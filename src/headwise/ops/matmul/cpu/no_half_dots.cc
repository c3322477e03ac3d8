// Processors without such instructions. Door: half_dots.h.
#include "headwise/ops/matmul/cpu/half_dots.h"

namespace headwise {

bool HasHalfDots() { return false; }
bool SplitRow::Set(const float*, size_t, uint16_t*) { return false; }
void DotHalf(const SplitRow&, const HalfGroups&, float*) {}

}  // namespace headwise
