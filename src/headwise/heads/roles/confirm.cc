// Causal checks on random repeats. Door: confirm.h.
#include "headwise/heads/roles/confirm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/heads/profile/probes.h"
#include "headwise/heads/profile/row_sums.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/session.h"
#include "headwise/runtime/windows.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr const char* kInduction = "repeats.induction";

// What a run over the repeats showed.
struct Behaviour {
  double fresh = 0;     // mean loss where a token is new
  double repeated = 0;  // mean loss where it follows what it followed before
  Profile profile;      // induction scores
};

class Repeats {
 public:
  Repeats(Context& context, const Model& model, const Tokenizer* tokenizer,
          int64_t sequences)
      : context_(context), model_(model) {
    const TokenTable table(tokenizer, model.config());
    const TokenFrame frame = tokenizer != nullptr
                                 ? FrameOf(*tokenizer, model.config())
                                 : FrameOf(model.config());
    for (const TokenWindow& window : RepeatWindows(
             table, frame, ContextOf(model.config(), 0), kRepeats, sequences)) {
      SequenceNotes notes;
      notes.source = Annotate(window.source, table, nullptr);
      notes.key = window.key;
      notes_.push_back(std::move(notes));
      ids_.insert(ids_.end(), window.source.ids.begin(),
                  window.source.ids.end());
      lengths_.push_back(window.source.size());
    }
  }

  bool empty() const { return lengths_.empty(); }

  Behaviour Measure(std::span<const HeadRef> closed) const {
    Behaviour result;
    result.profile = Profile(AllHeads(model_));
    ObserverOptions options;
    options.prefix = "repeats.";
    options.text = false;
    RowSums sums(context_, result.profile, options);
    sums.Begin(sums.Prepare(context_, notes_));
    ClosedHeads gates(model_, closed);
    const Tensor x =
        Forward(context_, model_,
                {.ids = ids_, .lengths = lengths_, .hooks = {&gates, &sums}});
    sums.Finish();
    AddLosses(x, result);
    return result;
  }

 private:
  void AddLosses(const Tensor& x, Behaviour& result) const {
    const int64_t vocabulary = model_.config().vocabulary;
    double sums[2] = {0, 0}, counts[2] = {0, 0};
    int64_t begin = 0;
    for (const int64_t length : lengths_) {
      Tensor logits(context_, model_.type(), {length, vocabulary});
      model_.Logits(context_, Rows(x.view(), begin, begin + length),
                    logits.view());
      std::vector<int32_t> targets(length, kIgnoreTarget);
      for (int64_t t = 1; t < length; ++t) targets[t - 1] = ids_[begin + t];
      Temp there;
      HostResult found(context_, DType::kF32, {length});
      CrossEntropy(context_, {},
                   {.logits = logits.view(),
                    .targets = OnDevice(context_, ViewOf(targets), there),
                    .losses = found.view()});
      found.Fetch(context_);
      const float* losses = found.As<float>();
      std::set<int32_t> seen;
      std::set<std::pair<int32_t, int32_t>> pairs;
      for (int64_t t = 1; t < length; ++t) {
        const int32_t before = ids_[begin + t - 1], id = ids_[begin + t];
        const bool followed = !pairs.emplace(before, id).second;
        const bool known = !seen.insert(id).second;
        if (followed != known) continue;  // where one copy meets the next
        sums[followed ? 1 : 0] += losses[t - 1];
        counts[followed ? 1 : 0] += 1;
      }
      begin += length;
    }
    result.fresh = sums[0] / counts[0];
    result.repeated = sums[1] / counts[1];
  }

  Context& context_;
  const Model& model_;
  std::vector<SequenceNotes> notes_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> lengths_;
};

void RequireHead(const Model& model, const HeadRef& head) {
  const std::vector<HeadRef> all = AllHeads(model);
  if (std::find(all.begin(), all.end(), head) != all.end()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"confirm", "heads of the model", ToString(head),
               "was the profile made of this model?"});
}

bool IsRole(const Role& role, const char* name) { return role.name == name; }

CausalCheck LossCheck(const Behaviour& before, const Behaviour& after) {
  return {
      "loss on repeated tokens", before.repeated, after.repeated,
      fmt::format("loss on repeats {:.2f} → {:.2f}, on new tokens "
                  "{:.2f} → {:.2f}",
                  before.repeated, after.repeated, before.fresh, after.fresh)};
}

// The mean induction score of those heads.
double Induction(const Profile& profile, const std::vector<HeadRef>& heads) {
  double sum = 0;
  for (const HeadRef& head : heads) {
    sum += profile.Get(kInduction, profile.IndexOf(head)).mean;
  }
  return sum / static_cast<double>(heads.size());
}

CausalCheck InductionCheck(const Behaviour& before, const Behaviour& after,
                           const std::vector<HeadRef>& readers) {
  CausalCheck check;
  check.before = Induction(before.profile, readers);
  check.after = Induction(after.profile, readers);
  std::string names;
  for (const HeadRef& head : readers) {
    names += (names.empty() ? "" : ", ") + ToString(head);
  }
  check.behaviour = "induction of " + names;
  check.text = fmt::format("{} {:.2f} → {:.2f}", check.behaviour, check.before,
                           check.after);
  return check;
}

}  // namespace

void ConfirmRoles(Context& context, const Model& model,
                  const Tokenizer* tokenizer, std::vector<HeadRoles>& heads,
                  const ConfirmJob& job) {
  if (!model.config().causal || !model.has_head()) return;
  for (const HeadRoles& head : heads) RequireHead(model, head.head);
  const Repeats repeats(context, model, tokenizer, job.sequences);
  if (repeats.empty()) return;
  std::vector<HeadRef> induction;
  for (const HeadRoles& head : heads) {
    for (const Role& role : head.roles) {
      if (IsRole(role, "induction")) induction.push_back(head.head);
    }
  }
  const Behaviour before = repeats.Measure({});
  for (size_t h = 0; h < heads.size(); ++h) {
    ThrowIfStopped(job.stop, "confirm");
    if (job.on_progress) {
      job.on_progress("confirm", static_cast<double>(h),
                      static_cast<double>(heads.size()));
    }
    std::vector<HeadRef> readers;
    for (const HeadRef& head : induction) {
      if (head.layer > heads[h].head.layer) readers.push_back(head);
    }
    std::optional<Behaviour> after;
    for (Role& role : heads[h].roles) {
      const bool loss = IsRole(role, "induction") || IsRole(role, "duplicate");
      const bool feeds = IsRole(role, "previous-token") && !readers.empty();
      if (!loss && !feeds) continue;
      if (!after) after = repeats.Measure({&heads[h].head, 1});
      role.check = loss ? LossCheck(before, *after)
                        : InductionCheck(before, *after, readers);
    }
  }
}

}  // namespace headwise
