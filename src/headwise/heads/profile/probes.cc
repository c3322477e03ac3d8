// Random repeats and needles. Door: probes.h.
#include "headwise/heads/profile/probes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/base/stop.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/heads/profile/row_sums.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

constexpr uint64_t kSeed = 1;
constexpr uint64_t kRepeatStream = 0, kNeedleStream = uint64_t{1} << 32;
constexpr int64_t kNeedleTokens = 10;
constexpr int64_t kHaystackTokens = 240;
constexpr int64_t kNeedles = 16;
constexpr int64_t kBatchSequences = 8;

// `count` distinct tokens of `from`, drawn without replacement.
std::vector<int32_t> DrawTokens(const std::vector<int32_t>& from, int64_t count,
                                Rng& rng) {
  std::vector<int32_t> pool = from;
  for (int64_t i = 0; i < count; ++i) {
    const auto rest = static_cast<uint64_t>(pool.size()) - i;
    std::swap(pool[i], pool[i + rng.Below(rest)]);
  }
  pool.resize(count);
  return pool;
}

TokenWindow Framed(const TokenFrame& frame,
                   const std::vector<int32_t>& tokens) {
  std::vector<int32_t> ids = frame.before;
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  ids.insert(ids.end(), frame.after.begin(), frame.after.end());
  return WindowOfIds(std::move(ids), static_cast<int64_t>(frame.before.size()),
                     static_cast<int64_t>(frame.after.size()));
}

void RunWindows(Context& context, const Model& model,
                std::span<const TokenWindow> windows, RunHooks& hooks) {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  for (const TokenWindow& window : windows) {
    ids.insert(ids.end(), window.source.ids.begin(), window.source.ids.end());
    lengths.push_back(window.source.size());
  }
  ForwardToLastAttention(context, model,
                         {.ids = ids, .lengths = lengths, .hooks = &hooks});
}

// Where the largest key of each expected row was the expected one.
class ArgmaxHooks : public RunHooks {
 public:
  struct Case {
    int64_t query = 0;  // row of the batch
    int32_t key = 0;    // in its sequence
    int64_t visible = 0;
  };
  ArgmaxHooks(Context& context, const std::vector<std::vector<Case>>& cases,
              Profile& profile)
      : context_(context), cases_(cases), profile_(profile) {
    profile.Tallies("retrieval");
    profile.Tallies("retrieval.chance");
  }

  void BeforeAttention(const AttentionSite&, const AttentionProblem& problem,
                       AttentionArgs& args) override {
    const int64_t queries = args.q.shape[1];
    argmax_ = HostResult(context_, DType::kI32, {1, problem.heads, queries});
    observation_.rows.argmax = argmax_.view();
    args.observation = &observation_;
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    argmax_.Fetch(context_);
    std::vector<Tally>& tallies = profile_.Tallies("retrieval");
    std::vector<Tally>& chances = profile_.Tallies("retrieval.chance");
    const int64_t first = profile_.IndexOf({site.kind, site.layer, 0});
    for (int64_t h = 0; h < problem.heads; ++h) {
      const int32_t* argmax = argmax_.As<int32_t>() + h * args.q.shape[1];
      for (const std::vector<Case>& sequence : cases_) {
        double found = 0, chance = 0;
        for (const Case& one : sequence) {
          found += argmax[one.query] == one.key ? 1 : 0;
          chance += 1 / static_cast<double>(one.visible);
        }
        const double count = static_cast<double>(sequence.size());
        tallies[first + h].Add(found, count);
        chances[first + h].Add(chance, count);
      }
    }
  }

 private:
  Context& context_;
  const std::vector<std::vector<Case>>& cases_;
  Profile& profile_;
  Observation observation_;
  HostResult argmax_;
};

}  // namespace

std::vector<TokenWindow> RepeatWindows(const TokenTable& table,
                                       const TokenFrame& frame, int64_t context,
                                       RepeatShape shape, int64_t count) {
  std::vector<TokenWindow> windows;
  const int64_t room = context - frame.size();
  const int64_t vocabulary = static_cast<int64_t>(table.ordinary().size());
  const int64_t copies = std::min(shape.copies, room / 4);
  const int64_t period =
      copies < 2 ? 0 : std::min({shape.tokens, room / copies, vocabulary});
  if (period < 4) return windows;
  for (int64_t s = 0; s < count; ++s) {
    Rng rng(kSeed, kRepeatStream + s);
    const std::vector<int32_t> once = DrawTokens(table.ordinary(), period, rng);
    std::vector<int32_t> tokens;
    for (int64_t c = 0; c < copies; ++c) {
      tokens.insert(tokens.end(), once.begin(), once.end());
    }
    windows.push_back(Framed(frame, tokens));
  }
  return windows;
}

namespace {

void RunRepeats(Context& context, const Model& model, const TokenTable& table,
                std::span<const TokenWindow> all, const std::string& prefix,
                Profile& profile, const OnProgress& progress,
                const std::stop_token& stop) {
  ObserverOptions options;
  options.prefix = prefix;
  options.min_visible = profile.settings.min_visible;
  options.text = false;
  RowSums sums(context, profile, options);
  for (size_t begin = 0; begin < all.size(); begin += kBatchSequences) {
    if (progress) {
      progress("probe the model", static_cast<double>(begin),
               static_cast<double>(all.size()));
    }
    ThrowIfStopped(stop, "profile");
    const auto batch = all.subspan(
        begin, std::min<size_t>(kBatchSequences, all.size() - begin));
    std::vector<SequenceNotes> notes;
    for (const TokenWindow& window : batch) {
      SequenceNotes sequence;
      sequence.source = Annotate(window.source, table, nullptr);
      sequence.key = window.key;
      notes.push_back(std::move(sequence));
    }
    sums.Begin(sums.Prepare(context, std::move(notes)));
    RunWindows(context, model, batch, sums);
    sums.Finish();
  }
}

}  // namespace

void AddRepeats(Context& context, const Model& model, const TokenTable& table,
                const TokenFrame& frame, Profile& profile,
                const OnProgress& progress, const std::stop_token& stop) {
  if (model.decoder() != nullptr) return;
  const int64_t room = ContextOf(model.config(), 0);
  const int64_t count = profile.settings.repeats;
  RunRepeats(context, model, table,
             RepeatWindows(table, frame, room, kRepeats, count), "repeats.",
             profile, progress, stop);
  const std::string once = "repeats-50x2.";
  RunRepeats(context, model, table,
             RepeatWindows(table, frame, room, kRepeatsOnce, count / 2), once,
             profile, progress, stop);
  std::erase_if(profile.metrics, [&](const auto& metric) {
    return metric.first.starts_with(once) &&
           !metric.first.starts_with(once + "induction") &&
           metric.first != once + "sink";
  });
}

void AddRetrieval(Context& context, const Model& model, const TokenTable& table,
                  const TokenFrame& frame, Profile& profile) {
  if (!model.config().causal || model.decoder() != nullptr) return;
  const int64_t room = ContextOf(model.config(), 0) - frame.size();
  const int64_t haystack = std::min(kHaystackTokens, room - 2 * kNeedleTokens);
  const int64_t before = static_cast<int64_t>(frame.before.size());
  if (haystack < 2 * kNeedleTokens ||
      static_cast<int64_t>(table.ordinary().size()) < 2 * kNeedleTokens) {
    return;
  }
  std::vector<TokenWindow> windows;
  std::vector<std::vector<ArgmaxHooks::Case>> cases;
  int64_t row = 0;
  for (int64_t s = 0; s < kNeedles; ++s) {
    Rng rng(kSeed, kNeedleStream + s);
    const std::vector<int32_t> needle =
        DrawTokens(table.ordinary(), kNeedleTokens, rng);
    std::vector<int32_t> tokens;
    while (static_cast<int64_t>(tokens.size()) < haystack) {
      const int32_t id = table.ordinary()[rng.Below(table.ordinary().size())];
      if (std::find(needle.begin(), needle.end(), id) == needle.end()) {
        tokens.push_back(id);
      }
    }
    const int64_t depth =
        static_cast<int64_t>(rng.Below(static_cast<uint64_t>(haystack)));
    tokens.insert(tokens.begin() + depth, needle.begin(), needle.end());
    tokens.insert(tokens.end(), needle.begin(), needle.end());
    // The last token of the needle produces what is not in it.
    std::vector<ArgmaxHooks::Case> sequence;
    const int64_t copy = before + haystack + kNeedleTokens;
    for (int64_t n = 0; n + 1 < kNeedleTokens; ++n) {
      sequence.push_back({row + copy + n,
                          static_cast<int32_t>(before + depth + n + 1),
                          copy + n + 1});
    }
    windows.push_back(Framed(frame, tokens));
    row += windows.back().source.size();
    cases.push_back(std::move(sequence));
  }
  ArgmaxHooks hooks(context, cases, profile);
  RunWindows(context, model, windows, hooks);
}

}  // namespace headwise
