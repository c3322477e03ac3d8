// Maps by second passes. Door: attention_maps.h.
#include "headwise/runtime/attention_maps.h"

#include <algorithm>
#include <string>

#include "headwise/error.h"
#include "headwise/observation.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

// Rows that are asked for in one call.
constexpr int64_t kRowsAtOnce = 1024;

// Queries that see key j.
int64_t Readers(const AttentionMask& mask, int64_t queries, int64_t j) {
  int64_t first = 0, last = queries - 1;
  if (mask.after != kUnlimited) first = std::max(first, j - mask.after);
  if (mask.before != kUnlimited) last = std::min(last, j + mask.before);
  return std::max<int64_t>(1, last - first + 1);
}

class Mapper : public RunHooks {
 public:
  Mapper(Context& context, const MapOptions& options,
         std::vector<MappedHead>& maps)
      : context_(context), options_(options), maps_(maps) {}

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    std::vector<MappedHead*> here;
    for (MappedHead& map : maps_) {
      if (map.head.kind == site.kind && map.head.layer == site.layer) {
        here.push_back(&map);
      }
    }
    if (here.empty()) return;
    if (options_.query && *options_.query >= problem.query_len) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"query",
                   "a token from 0 to " + std::to_string(problem.query_len - 1),
                   std::to_string(*options_.query), ""});
    }
    for (MappedHead* map : here) Draw(problem, args, *map);
    Top(problem, args, here);
    Strips(problem, args, here);
  }

 private:
  void Draw(const AttentionProblem& problem, const AttentionArgs& args,
            MappedHead& map) {
    map.queries = problem.query_len;
    map.keys = problem.key_len;
    map.mask = problem.mask;
    map.rows = std::min(map.queries, options_.most_cells);
    map.columns = std::min(map.keys, options_.most_cells);
    map.values.resize(map.rows * map.columns);
    WindowRequest request;
    request.head = map.head.head;
    request.query_end = map.queries;
    request.key_end = map.keys;
    AttentionWindow(context_, problem, args, request,
                    View(map.values.data(), {map.rows, map.columns}), {});
  }

  void Top(const AttentionProblem& problem, const AttentionArgs& args,
           const std::vector<MappedHead*>& here) {
    const int64_t heads = problem.heads;
    const int64_t top = std::min(options_.top, problem.key_len);
    for (int64_t first = 0; first < problem.query_len; first += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, problem.query_len - first);
      std::vector<RowRef> rows;
      for (int64_t i = 0; i < count; ++i) rows.push_back({0, first + i});
      Tensor keys(DType::kI32, {count, heads, top});
      Tensor shares(DType::kF32, {count, heads, top});
      AttentionTopK(context_, problem, args, rows, keys.view(), shares.view());
      for (MappedHead* map : here) {
        map->top = top;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t at = (i * heads + map->head.head) * top;
          map->top_keys.insert(map->top_keys.end(), keys.As<int32_t>() + at,
                               keys.As<int32_t>() + at + top);
          map->top_shares.insert(map->top_shares.end(), shares.As<float>() + at,
                                 shares.As<float>() + at + top);
        }
      }
    }
  }

  void Strips(const AttentionProblem& problem, const AttentionArgs& args,
              const std::vector<MappedHead*>& here) {
    const int64_t keys = problem.key_len;
    Tensor all(DType::kF32, {1, problem.heads, keys});
    if (options_.query) {
      const std::vector<RowRef> row = {{0, *options_.query}};
      AttentionRows(context_, problem, args, row, all.view());
    } else {
      ReceivedAttention(context_, problem, args, {}, all.view());
    }
    for (MappedHead* map : here) {
      const float* from = all.As<float>() + map->head.head * keys;
      map->strip.assign(from, from + keys);
      if (options_.query) continue;
      for (int64_t j = 0; j < keys; ++j) {
        map->strip[j] /=
            static_cast<float>(Readers(problem.mask, problem.query_len, j));
      }
    }
  }

  Context& context_;
  const MapOptions& options_;
  std::vector<MappedHead>& maps_;
};

}  // namespace

bool MappedHead::Sees(int64_t row, int64_t column) const {
  // Cells cover tokens as AttentionWindow pools them: at least one.
  const int64_t first_query = row * queries / rows + mask.query_offset;
  const int64_t last_query =
      std::max((row + 1) * queries / rows - 1 + mask.query_offset, first_query);
  const int64_t first_key = column * keys / columns;
  const int64_t last_key =
      std::max((column + 1) * keys / columns - 1, first_key);
  const bool late =
      mask.after != kUnlimited && first_key > last_query + mask.after;
  const bool early =
      mask.before != kUnlimited && last_key < first_query - mask.before;
  return !late && (!early || first_key < mask.sinks);
}

std::vector<MappedHead> MapHeads(Context& context, const Model& model,
                                 const TokenWindow& window,
                                 const std::vector<HeadRef>& heads,
                                 const MapOptions& options) {
  std::vector<MappedHead> maps(heads.size());
  for (size_t i = 0; i < heads.size(); ++i) maps[i].head = heads[i];
  Mapper mapper(context, options, maps);
  const std::vector<int64_t> lengths = {window.source.size()};
  const std::vector<int64_t> targets = {window.target.size()};
  Forward(context, model,
          {.ids = window.source.ids,
           .lengths = lengths,
           .decoder_ids = window.target.ids,
           .decoder_lengths = targets,
           .hooks = &mapper});
  return maps;
}

}  // namespace headwise
