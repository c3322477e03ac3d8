// Door: prepared_input.h.
#include "headwise/runtime/prepared_input.h"

#include <utility>

#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {

PreparedInput::PreparedInput(std::vector<int32_t> all,
                             std::span<const int64_t> lengths)
    : ids(std::move(all)), batch(MakeBatch(lengths)) {}

void PreparedInput::MoveTo(Context& context) {
  if (context.device().is_cpu() || ids.empty()) return;
  ids_there = ToDevice(context, ViewOf(std::as_const(ids)));
  batch.StartsOn(context);
  batch.PositionsOn(context);
  context.Synchronize();  // other contexts read it
}

}  // namespace headwise
