// Door: room.h.
#include "headwise/model/room.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "headwise/backend/device_backend.h"
#include "headwise/base/byte_size.h"
#include "headwise/error.h"
#include "headwise/memory.h"
#include "headwise/model/summary.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise {
namespace {

// Columns of the halves of a layer: projections, and heads beside them; what
// the feed-forward half multiplies into, and that activated.
struct LayerColumns {
  double projected = 0;
  double attention = 0;
  double projected_mlp = 0;
  double activated_mlp = 0;

  double widest() const {
    return std::max(attention, projected_mlp + activated_mlp);
  }
};

LayerColumns ColumnsOf(const ModelConfig& config, const LayerShape& layer,
                       int64_t hidden) {
  const double dim = static_cast<double>(config.HeadDim(layer));
  const double value = static_cast<double>(config.ValueDim(layer));
  const double heads = static_cast<double>(layer.heads);
  const double groups =
      layer.keys_of < 0 ? static_cast<double>(layer.kv_heads) : 0;
  const double cross = static_cast<double>(layer.cross_heads);
  LayerColumns columns;
  const double both = dim + value;
  columns.projected =
      std::max(dim * heads + both * groups, (both + dim) * cross);
  columns.attention = both * std::max(heads + groups, 2 * cross);
  columns.activated_mlp = static_cast<double>(hidden);
  columns.projected_mlp =
      static_cast<double>(config.gated ? 2 * hidden : hidden);
  return columns;
}

// visit(columns) of every layer of both stacks.
template <typename Visit>
void ForLayers(const ModelConfig& config, const Visit& visit) {
  for (const LayerShape& layer : config.layers) {
    visit(ColumnsOf(config, layer, config.Hidden(layer)));
  }
  for (const LayerShape& layer : config.decoder) {
    visit(ColumnsOf(config, layer, config.decoder_hidden));
  }
}

double WidestColumns(const ModelConfig& config) {
  double widest = 0;
  ForLayers(config, [&](const LayerColumns& columns) {
    widest = std::max(widest, columns.widest());
  });
  return widest;
}

double MissingWeights(const Context& context, const Model& model) {
  std::vector<const Linear*> linears = LinearsOf(model.stack());
  if (model.decoder() != nullptr) {
    const auto more = LinearsOf(*model.decoder());
    linears.insert(linears.end(), more.begin(), more.end());
  }
  linears.push_back(&model.head().vocabulary);
  double bytes = 0;
  for (const Linear* linear : linears) {
    if (!linear->weights()) continue;  // they change, and lie where they are
    bytes += static_cast<double>(
        MissingBytes(*linear->weights(), context.device(), model.type()));
  }
  return bytes;
}

std::string Size(double bytes) {
  return ByteSize(static_cast<uint64_t>(bytes));
}

}  // namespace

double PassNumbers(const ModelConfig& config, int64_t tokens) {
  return static_cast<double>(tokens) *
         (2 * static_cast<double>(config.width) + WidestColumns(config));
}

double KeptNumbers(const ModelConfig& config, int64_t tokens, bool recompute) {
  const double width = static_cast<double>(config.width);
  double all = 0, largest = 0, layers = 0;
  ForLayers(config, [&](const LayerColumns& columns) {
    // Both halves keep the stream and what the norm made of it.
    const double kept = 4 * width + columns.attention + columns.projected_mlp;
    all += kept;
    largest = std::max(largest, kept);
    ++layers;
  });
  return static_cast<double>(tokens) *
         (recompute ? layers * width + largest : all);
}

double CallNumbers(const ModelConfig& config, int64_t tokens) {
  double widest = 0;
  ForLayers(config, [&](const LayerColumns& columns) {
    widest = std::max(widest, columns.projected);
  });
  return static_cast<double>(tokens) * widest;
}

RoomNeeds ForwardNeeds(const Context& context, const Model& model,
                       int64_t tokens) {
  const double size = static_cast<double>(ElementSize(model.type()));
  return {.weights = MissingWeights(context, model),
          .run = size * PassNumbers(model.config(), tokens)};
}

RoomNeeds GenerateNeeds(const Context& context, const Model& model,
                        int64_t prompt, int64_t tokens) {
  RoomNeeds needs = ForwardNeeds(context, model, prompt);
  // Caches are counted in f32.
  needs.run += CostOf(model.config(), tokens).cache_bytes *
               static_cast<double>(ElementSize(model.type())) / sizeof(float);
  return needs;
}

RoomNeeds TrainingNeeds(const ModelConfig& config, DType type,
                        const TrainingSize& size) {
  const double item = static_cast<double>(ElementSize(type));
  // The backward has the widest half's gradients beside it.
  const double pass = 2 * PassNumbers(config, size.tokens);
  return {
      .weights =
          static_cast<double>(size.parameters) * size.missing * sizeof(float),
      .run = item * (KeptNumbers(config, size.tokens, size.recompute) + pass)};
}

void RequireRoom(Device device, const RoomNeeds& needs, double free) {
  if (needs.all() <= free) return;
  throw Error(ErrorCode::kOutOfMemory,
              {"memory",
               fmt::format("{} on {}: {} for the weights, {} for a run",
                           Size(needs.all()), ToString(device),
                           Size(needs.weights), Size(needs.run)),
               Size(free) + " free",
               "a shorter window or context, a smaller batch or --type bf16 "
               "take less"});
}

void RequireRoom(Context& context, const RoomNeeds& needs) {
  const auto room = context.backend()->Room();
  if (!room) return;
  RequireRoom(context.device(), needs, static_cast<double>(room->free));
}

void RequireRoom(Context& context, const Model& model, int64_t tokens) {
  if (!context.device().is_cpu()) {
    return RequireRoom(context, ForwardNeeds(context, model, tokens));
  }
  const double needed = CostOf(model.config(), tokens).stream_bytes;
  const auto free = FreeMemory();
  if (!free || needed <= static_cast<double>(*free)) return;
  throw Error(
      ErrorCode::kOutOfMemory,
      {"memory",
       fmt::format("{} for a run of {} tokens at once", Size(needed), tokens),
       "none", ""});
}

}  // namespace headwise
