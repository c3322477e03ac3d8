// Maps by second passes. Door: attention_maps.h.
#include "headwise/runtime/attention_maps.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Queries that see key j.
int64_t Readers(const AttentionMask& mask, int64_t queries, int64_t j) {
  int64_t first = 0, last = queries - 1;
  if (mask.after != kUnlimited) first = std::max(first, j - mask.after);
  if (mask.before != kUnlimited) last = std::min(last, j + mask.before);
  return std::max<int64_t>(1, last - first + 1);
}

// At most `most` of them, evenly spread.
std::vector<int64_t> Spread(int64_t queries, int64_t most) {
  const int64_t count = std::min(most, queries);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) {
    chosen.push_back(count == queries ? i
                                      : (2 * i + 1) * queries / (2 * count));
  }
  return chosen;
}

int64_t QueriesOf(const HeadRef& head, const TokenWindow& window) {
  return head.kind == AttentionKind::kSelf ? window.source.size()
                                           : window.target.size();
}

class Mapper : public RunHooks {
 public:
  Mapper(Context& context, const ShowJob& job, int64_t layers,
         std::vector<MappedHead>& maps)
      : context_(context), job_(job), layers_(layers), maps_(maps) {}

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override {
    Report("attend", begun_++, layers_);
  }

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
    for (MappedHead* map : here) {
      Report("draw", drawn_++, static_cast<int64_t>(maps_.size()));
      Draw(problem, args, *map);
    }
    Top(problem, args, here);
    Strips(problem, args, here);
  }

 private:
  void Report(const char* stage, int64_t done, int64_t total) const {
    ThrowIfStopped(job_.stop, "attention maps");
    if (!job_.on_progress) return;
    job_.on_progress(stage, static_cast<double>(done),
                     static_cast<double>(total));
  }

  void Draw(const AttentionProblem& problem, const AttentionArgs& args,
            MappedHead& map) {
    map.queries = problem.query_len;
    map.keys = problem.key_len;
    map.mask = problem.mask;
    map.rows = std::min(map.queries, job_.cells);
    map.columns = std::min(map.keys, job_.cells);
    WindowRequest request;
    request.head = map.head.head;
    request.query_end = map.queries;
    request.key_end = map.keys;
    Tensor cells(context_, DType::kF32, {map.rows, map.columns});
    AttentionWindow(context_, problem, args, request, cells.view(), {});
    map.values = ToVector<float>(context_, cells.view());
  }

  void Top(const AttentionProblem& problem, const AttentionArgs& args,
           const std::vector<MappedHead*>& here) {
    const std::vector<int64_t> queries =
        job_.query ? std::vector<int64_t>{*job_.query}
                   : Spread(problem.query_len, job_.queries);
    const auto count = static_cast<int64_t>(queries.size());
    const int64_t heads = problem.heads;
    const int64_t top = std::min(job_.top, problem.key_len);
    std::vector<RowRef> rows;
    for (const int64_t query : queries) rows.push_back({0, query});
    Tensor keys(context_, DType::kI32, {count, heads, top});
    Tensor shares(context_, DType::kF32, {count, heads, top});
    AttentionTopK(context_, problem, args, rows, keys.view(), shares.view());
    for (MappedHead* map : here) {
      map->top = top;
      map->top_queries = queries;
      const int64_t head = map->head.head;
      map->top_keys = ToVector<int32_t>(context_, At(keys.view(), 1, head));
      map->top_shares = ToVector<float>(context_, At(shares.view(), 1, head));
    }
  }

  void Strips(const AttentionProblem& problem, const AttentionArgs& args,
              const std::vector<MappedHead*>& here) {
    const int64_t keys = problem.key_len;
    Tensor all(context_, DType::kF32, {1, problem.heads, keys});
    if (job_.query) {
      const std::vector<RowRef> row = {{0, *job_.query}};
      AttentionRows(context_, problem, args, row, all.view());
    } else {
      ReceivedAttention(context_, problem, args, {}, all.view());
    }
    for (MappedHead* map : here) {
      map->strip = ToVector<float>(context_, At(all.view(), 1, map->head.head));
      if (job_.query) continue;
      for (int64_t j = 0; j < keys; ++j) {
        map->strip[j] /=
            static_cast<float>(Readers(problem.mask, problem.query_len, j));
      }
    }
  }

  Context& context_;
  const ShowJob& job_;
  int64_t layers_;     // attention calls of a whole run
  int64_t begun_ = 0;  // of them
  int64_t drawn_ = 0;  // heads
  std::vector<MappedHead>& maps_;
};

// The site of these heads that a run comes to last.
const AttentionSite& LastSite(const Model& model,
                              const std::vector<HeadRef>& heads) {
  const auto order = [](const HeadRef& head) {
    return std::tuple(head.kind != AttentionKind::kSelf, head.layer,
                      head.kind == AttentionKind::kCross);
  };
  const HeadRef& last = *std::ranges::max_element(heads, {}, order);
  return AttentionLayers(model, last.kind)[last.layer]->site();
}

void RequireQuery(const ShowJob& job, const TokenWindow& window,
                  const std::vector<HeadRef>& heads) {
  if (!job.query) return;
  for (const HeadRef& head : heads) {
    const int64_t queries = QueriesOf(head, window);
    if (*job.query >= 0 && *job.query < queries) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        {"query", "a token from 0 to " + std::to_string(queries - 1),
         std::to_string(*job.query), "headwise tokenize numbers the tokens"});
  }
}

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
                                 const ShowJob& job) {
  RequireQuery(job, window, heads);
  std::vector<MappedHead> maps(heads.size());
  if (heads.empty()) return maps;
  for (size_t i = 0; i < heads.size(); ++i) maps[i].head = heads[i];
  const ModelConfig& config = model.config();
  Mapper mapper(
      context, job,
      static_cast<int64_t>(config.layers.size() + 2 * config.decoder.size()),
      maps);
  const std::vector<int64_t> lengths = {window.source.size()};
  const std::vector<int64_t> targets = {window.target.size()};
  Forward(context, model,
          {.ids = window.source.ids,
           .lengths = lengths,
           .decoder_ids = window.target.ids,
           .decoder_lengths = targets,
           .hooks = &mapper,
           .stop_after = &LastSite(model, heads)});
  return maps;
}

}  // namespace headwise
