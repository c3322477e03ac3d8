// Running one text: activations, and where heads look. Door:
// include/headwise/model.h.
#include <algorithm>
#include <string>
#include <utility>

#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/byte_size.h"
#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/head_ref.h"
#include "headwise/memory.h"
#include "headwise/model.h"
#include "headwise/model/room.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/activations.h"
#include "headwise/runtime/session.h"
#include "headwise/runtime/token_labels.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr int64_t kMostCells = int64_t{1} << 28;

// A window as one sequence.
class OneSequence {
 public:
  OneSequence(const TokenWindow& window, const HookList& hooks)
      : source_{window.source.size()}, target_{window.target.size()} {
    input_.ids = window.source.ids;
    input_.lengths = source_;
    input_.hooks = hooks;
    if (window.target.size() == 0) return;
    input_.decoder_ids = window.target.ids;
    input_.decoder_lengths = target_;
  }
  const ForwardInput& input() const { return input_; }

 private:
  std::vector<int64_t> source_, target_;
  ForwardInput input_;
};

// What stands for the output of a model: logits, or its last states.
std::string OutputName(const Model& model) {
  return model.has_head() ? "logits" : model.predictor().prefix + "final";
}

RunOutput RunWindow(Transformer::State& state, TokenWindow window,
                    const RunJob& job) {
  const Model& model = state.model();
  const OneSequence sequence(window, state.interventions->hooks());
  const std::string output = OutputName(model);
  std::vector<std::string> names = job.cache;
  if (job.out) names.push_back(output);
  RunOutput result;
  if (names.empty()) {
    Forward(state.context, model, sequence.input());
  } else {
    result.cache =
        RecordActivations(state.context, model, sequence.input(), names);
  }
  if (job.out) {
    const auto found = result.cache.find(output);
    const bool kept = std::ranges::any_of(job.cache, [&](const auto& pattern) {
      return MatchesPattern(pattern, output);
    });
    if (kept) {
      result.out = ToHost(state.context, found->second.view());
    } else {
      result.out = std::move(found->second);
      result.cache.erase(found);
    }
  }
  result.ids = std::move(window.source.ids);
  return result;
}

// Sequences end to end.
struct Sequences {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
};

Sequences Join(std::span<const std::vector<int32_t>> rows, int64_t vocabulary) {
  Sequences all;
  for (const std::vector<int32_t>& row : rows) {
    if (row.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"rows", "at least one token each",
                   "none in row " + std::to_string(&row - rows.data()),
                   "leave out empty rows"});
    }
    all.ids.insert(all.ids.end(), row.begin(), row.end());
    all.lengths.push_back(std::ssize(row));
  }
  RequireTokenIds(all.ids, vocabulary, "ids");
  return all;
}

void RequirePlaces(const SequencePlaces& places, size_t rows, size_t targets) {
  const auto fits = [](const std::vector<int64_t>& first, size_t count) {
    return first.empty() || first.size() == count;
  };
  if (fits(places.first, rows) && fits(places.target_first, targets)) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"places", "a first position of each sequence, or none",
               std::to_string(places.first.size()) + " and " +
                   std::to_string(places.target_first.size()),
               ""});
}

// Activations are given when all are there.
void RequireMemory(const Model& model, const ForwardInput& input,
                   const std::vector<std::string>& names,
                   const Padding& padding = {}) {
  const uint64_t needed = ActivationBytes(model, input, names, padding);
  const auto free = FreeMemory();
  if (!free || needed <= *free) return;
  throw Error(
      ErrorCode::kOutOfMemory,
      {"names", ByteSize(needed) + " of memory for these activations",
       ByteSize(*free) + " free", "take fewer names or a shorter text"});
}

void RequireRange(const char* what, int64_t begin, int64_t end, int64_t size) {
  if (begin >= 0 && begin < end && end <= size) return;
  throw Error(ErrorCode::kInvalidArgument,
              {what, "a range within 0 … " + std::to_string(size),
               std::to_string(begin) + " … " + std::to_string(end), ""});
}

// What is asked for of a map of this size.
struct MapPart {
  WindowRequest request;
  int64_t rows = 0;
  int64_t columns = 0;
};

MapPart PartOf(const MapJob& job, int64_t queries, int64_t keys) {
  MapPart part;
  WindowRequest& request = part.request;
  request.head = job.head.head;
  request.query_begin = job.query_begin;
  request.query_end = job.query_end > 0 ? job.query_end : queries;
  request.key_begin = job.key_begin;
  request.key_end = job.key_end > 0 ? job.key_end : keys;
  RequireRange("queries", request.query_begin, request.query_end, queries);
  RequireRange("keys", request.key_begin, request.key_end, keys);
  for (const int64_t query : job.top_queries) {
    RequireRange("top_queries", query, query + 1, queries);
  }
  part.rows = request.query_end - request.query_begin;
  part.columns = request.key_end - request.key_begin;
  if (job.rows > 0) part.rows = std::min(job.rows, part.rows);
  if (job.columns > 0) part.columns = std::min(job.columns, part.columns);
  if (part.rows <= kMostCells / part.columns) return part;
  throw Error(ErrorCode::kInvalidArgument,
              {"rows and columns", "at most 2^28 cells",
               std::to_string(part.rows) + " × " + std::to_string(part.columns),
               "ask for a part, or for fewer cells"});
}

// Takes the map of one head.
class MapTaker : public RunHooks {
 public:
  MapTaker(Context& context, const MapJob& job, const MapPart& part,
           MappedAttention& result)
      : context_(context), job_(job), part_(part), result_(result) {}

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    if (site.kind != job_.head.kind || site.layer != job_.head.layer) return;
    result_.queries = problem.query_len;
    result_.keys = problem.key_len;
    Weights(problem, args);
    Top(problem, args);
    Received(problem, args);
  }

 private:
  void Weights(const AttentionProblem& problem, const AttentionArgs& args) {
    Tensor cells(context_, DType::kF32, {part_.rows, part_.columns});
    AttentionWindow(context_, problem, args, part_.request, cells.view(), {});
    result_.weights = ToHost(context_, cells.view());
  }

  void Top(const AttentionProblem& problem, const AttentionArgs& args) {
    if (job_.top <= 0 || job_.top_queries.empty()) return;
    const int64_t top = std::min(job_.top, problem.key_len);
    const auto count = std::ssize(job_.top_queries);
    std::vector<RowRef> rows;
    for (const int64_t query : job_.top_queries) {
      rows.push_back({0, query});
    }
    Tensor keys(context_, DType::kI32, {count, problem.heads, top});
    Tensor weights(context_, DType::kF32, {count, problem.heads, top});
    AttentionTopK(context_, problem, args, rows, keys.view(), weights.view());
    const int64_t head = job_.head.head;
    result_.top_keys = ToHost(context_, At(keys.view(), 1, head));
    result_.top_weights = ToHost(context_, At(weights.view(), 1, head));
  }

  void Received(const AttentionProblem& problem, const AttentionArgs& args) {
    if (!job_.received) return;
    Tensor all(context_, DType::kF32, {1, problem.heads, problem.key_len});
    ReceivedAttention(context_, problem, args, {}, all.view());
    result_.received =
        ToHost(context_, At(At(all.view(), 0, 0), 0, job_.head.head));
  }

  Context& context_;
  const MapJob& job_;
  const MapPart& part_;
  MappedAttention& result_;
};

MappedAttention MapWindow(Transformer& of, const TokenWindow& window,
                          const MapJob& job) {
  RequireHead(of, job.head);
  Transformer::State& state = of.state();
  const bool of_source = job.head.kind == AttentionKind::kSelf;
  const bool to_target = job.head.kind == AttentionKind::kDecoder;
  const MapPart part =
      PartOf(job, (of_source ? window.source : window.target).size(),
             (to_target ? window.target : window.source).size());
  MappedAttention result;
  MapTaker taker(state.context, job, part, result);
  const OneSequence sequence(window, {state.interventions->hooks(), &taker});
  ForwardInput input = sequence.input();
  const auto layers = AttentionLayers(state.model(), job.head.kind);
  input.stop_after = &layers[job.head.layer]->site();
  Forward(state.context, state.model(), input);
  if (of.has_tokenizer()) {
    const auto labels = [&](bool target) {
      return TokenLabels(target ? window.target : window.source,
                         of.tokenizer());
    };
    result.query_tokens = labels(!of_source);
    result.key_tokens = labels(to_target);
  }
  return result;
}

}  // namespace

RunOutput Transformer::Run(std::string_view text, const RunJob& job) {
  const ModelUse use(*state_);
  return RunWindow(*state_, WholeText(*this, text, job.target.value_or("")),
                   job);
}
RunOutput Transformer::Run(std::span<const int32_t> ids, const RunJob& job) {
  const ModelUse use(*state_);
  return RunWindow(*state_, WholeIds(*this, ids, job.target.value_or("")), job);
}

std::map<std::string, Tensor> Transformer::RunRows(
    std::span<const std::vector<int32_t>> rows,
    const std::vector<std::string>& names,
    std::span<const std::vector<int32_t>> targets,
    const SequencePlaces& places) {
  const ModelUse use(*state_);
  if (rows.empty() ||
      targets.size() != (info().encoder_decoder ? rows.size() : 0)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"rows and targets",
         "sequences, and of encoder–decoders as many targets",
         std::to_string(rows.size()) + " and " + std::to_string(targets.size()),
         ""});
  }
  const Sequences source = Join(rows, info().vocabulary);
  const Sequences target = Join(targets, info().vocabulary);
  ForwardInput input;
  input.ids = source.ids;
  input.lengths = source.lengths;
  input.decoder_ids = target.ids;
  input.decoder_lengths = target.lengths;
  input.hooks = state_->interventions->hooks();
  RequirePlaces(places, rows.size(), targets.size());
  const Padding padding = {{places.width, places.first},
                           {places.target_width, places.target_first}};
  RequireMemory(state_->model(), input, names, padding);
  RequireRoom(state_->context, state_->model(), std::ssize(source.ids));
  TellPastContext(*this, std::ranges::max(source.lengths));
  return RecordActivations(state_->context, state_->model(), input, names,
                           padding);
}

MappedAttention Transformer::Map(std::string_view text, const MapJob& job) {
  const ModelUse use(*state_);
  return MapWindow(*this, WholeText(*this, text, job.target.value_or("")), job);
}
MappedAttention Transformer::Map(std::span<const int32_t> ids,
                                 const MapJob& job) {
  const ModelUse use(*state_);
  return MapWindow(*this, WholeIds(*this, ids, job.target.value_or("")), job);
}

}  // namespace headwise
