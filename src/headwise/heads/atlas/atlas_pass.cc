// The pass over the text. Door: atlas_pass.h.
#include "headwise/heads/atlas/atlas_pass.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/atlas/atlas_observer.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/room.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

// Sums of so many sequences begin at zero: the numbers depend neither on ranks
// nor on interruptions.
constexpr size_t kPartSequences = 64;
// Tokens that pass through the layers together.
constexpr int64_t kHostTokens = 2048;
constexpr int64_t kDeviceTokens = 16384;

int64_t BatchTokens(const Context& context) {
  return context.device().is_cpu() ? kHostTokens : kDeviceTokens;
}

class AtlasRunner {
 public:
  AtlasRunner(Context& context, const Model& model)
      : context_(context), model_(model), observer_(context, model) {}

  // first: the number of the first in the text.
  void Run(std::span<const TokenWindow> windows, int64_t first,
           AtlasSums& sums) {
    while (!windows.empty()) {
      size_t count = 0;
      int64_t tokens = 0;
      do {
        tokens += windows[count++].source.size();
      } while (count < windows.size() &&
               tokens + windows[count].source.size() <= BatchTokens(context_));
      RunBatch(windows.first(count), first, sums);
      windows = windows.subspan(count);
      first += static_cast<int64_t>(count);
    }
  }

 private:
  void RunBatch(std::span<const TokenWindow> batch, int64_t first,
                AtlasSums& sums) {
    std::vector<int32_t> ids;
    std::vector<int64_t> lengths;
    for (const TokenWindow& window : batch) {
      ids.insert(ids.end(), window.source.ids.begin(), window.source.ids.end());
      lengths.push_back(window.source.size());
    }
    observer_.Begin(batch);
    ForwardToLastAttention(
        context_, model_,
        {.ids = ids, .lengths = lengths, .hooks = &observer_});
    observer_.Finish(first, sums);
  }

  Context& context_;
  const Model& model_;
  AtlasObserver observer_;
};

}  // namespace

AtlasSums SumAtlas(Context& context, const Model& model, const NextWindow& next,
                   int64_t longest, const std::function<double()>& expected,
                   const AtlasJob& job, const PassOptions& options) {
  RequireRoom(context, model, std::max(longest, BatchTokens(context)));
  const size_t heads = AllHeads(model).size();
  AtlasSums all(heads, job);
  PassWork work;
  work.stage = "atlas";
  work.sum_on = SumOn::kAll;
  work.add = [&](std::string_view message) { all.AddPacked(message); };
  work.unpack = work.add;
  work.pack = [&] { return all.Packed(); };
  TextPass pass(options, std::move(work));
  AtlasRunner runner(context, model);
  std::vector<TokenWindow> waiting;
  size_t parts = 0;
  double done = 0;
  const auto run = [&] {
    if (options.progress) options.progress("atlas", done, expected());
    pass.Tell(0);
    if (pass.Owns(parts)) {
      AtlasSums own(heads, job);
      runner.Run(waiting, static_cast<int64_t>(parts * kPartSequences), own);
      pass.Give(parts, own.Packed());
    }
    for (const TokenWindow& one : waiting) {
      done += static_cast<double>(one.source.size());
    }
    ++parts;
    waiting.clear();
  };
  while (std::optional<TokenWindow> window = next()) {
    waiting.push_back(std::move(*window));
    if (waiting.size() == kPartSequences) run();
  }
  if (!waiting.empty()) run();
  if (parts == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"atlas", "a text of at least two tokens", "one or none", ""});
  }
  pass.Finish(parts);
  return all;
}

}  // namespace headwise
