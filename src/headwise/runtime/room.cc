// Door: room.h.
#include "headwise/runtime/room.h"

#include <fmt/core.h>

#include <vector>

#include "headwise/backend/device_backend.h"
#include "headwise/base/byte_size.h"
#include "headwise/base/free_memory.h"
#include "headwise/error.h"
#include "headwise/model/summary.h"

namespace headwise {

void RequireRoom(const ModelConfig& config, int64_t tokens) {
  const double needed = CostOf(config, tokens).stream_bytes;
  const auto free = FreeMemory();
  if (!free || needed <= static_cast<double>(*free)) return;
  throw Error(ErrorCode::kOutOfMemory,
              {"memory",
               fmt::format("{} for a run of {} tokens at once",
                           ByteSize(static_cast<uint64_t>(needed)), tokens),
               "none", ""});
}

void RequireRoom(Device device, double weights, double run, double free) {
  if (weights + run <= free) return;
  const auto size = [](double bytes) {
    return ByteSize(static_cast<uint64_t>(bytes));
  };
  throw Error(ErrorCode::kOutOfMemory,
              {"memory",
               fmt::format("{} on {}: {} for the weights, {} for a run",
                           size(weights + run), ToString(device), size(weights),
                           size(run)),
               size(free) + " free",
               "a shorter window or context, a smaller batch or --type bf16 "
               "take less"});
}

void RequireRoom(Context& context, const Model& model, int64_t tokens) {
  const auto room = context.backend()->Room();
  if (!room) return;
  double numbers = 0;
  std::vector<const Linear*> linears = LinearsOf(model.stack());
  if (model.decoder() != nullptr) {
    const auto more = LinearsOf(*model.decoder());
    linears.insert(linears.end(), more.begin(), more.end());
  }
  linears.push_back(&model.head().vocabulary);
  for (const Linear* linear : linears) {
    numbers += static_cast<double>(linear->in() * linear->out());
  }
  // Costs are counted in f32.
  const double part = static_cast<double>(SizeOf(model.type())) / sizeof(float);
  const RunCost cost = CostOf(model.config(), tokens);
  RequireRoom(context.device(),
              numbers * static_cast<double>(SizeOf(model.type())),
              part * (cost.cache_bytes + cost.stream_bytes),
              static_cast<double>(room->free));
}

}  // namespace headwise
