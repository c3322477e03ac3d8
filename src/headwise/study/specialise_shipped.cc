// Heads of a model from disk, and what closing them does. Door: specialise.h.
#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/heads/roles/roles.h"
#include "headwise/runtime/gates.h"
#include "headwise/study/specialise.h"
#include "headwise/study/support/shipped.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr int kOtherChoices = 20;  // of heads to close instead

// Losses without some heads.
class Closer {
 public:
  Closer(Context& context, const TrainedReader& reader)
      : context_(context),
        reader_(reader),
        texts_(reader.Text()),
        repeats_(reader.Repeats(RepeatTask::kOneToken, 8)) {
    // The effect is large; a part of the text shows whether it is there too.
    texts_.resize(std::min<size_t>(texts_.size(), 8));
  }

  double OnText(std::span<const HeadRef> closed) const {
    return Loss(texts_, closed);
  }
  double OnRepeats(std::span<const HeadRef> closed) const {
    return Loss(repeats_, closed);
  }

 private:
  double Loss(std::span<const MadeSequence> sequences,
              std::span<const HeadRef> closed) const {
    ClosedHeads hooks(reader_.model(), closed);
    return MeanOf(SequenceLosses(context_, reader_.model(), sequences, &hooks));
  }

  Context& context_;
  const TrainedReader& reader_;
  std::vector<MadeSequence> texts_, repeats_;
};

// The heads that have a role, and those that do not.
std::pair<std::vector<HeadRef>, std::vector<HeadRef>> SplitByRole(
    const std::vector<HeadRoles>& heads, const std::string& role) {
  std::pair<std::vector<HeadRef>, std::vector<HeadRef>> split;
  for (const HeadRoles& head : heads) {
    const bool has =
        std::any_of(head.roles.begin(), head.roles.end(),
                    [&](const Role& own) { return own.name == role; });
    (has ? split.first : split.second).push_back(head.head);
  }
  return split;
}

// Closes the heads of each role that repeats need, and as many others.
void CloseRoles(Context& context, const TrainedReader& reader,
                const Profile& profile, StudyResult& result) {
  const Closer closer(context, reader);
  const std::vector<HeadRoles> heads = AssignRoles(profile);
  const double repeats = closer.OnRepeats({}), text = closer.OnText({});
  StudyTable table{
      "The shipped model: rise of the loss without the heads of a role, nats",
      {"role", "heads", "on repeats", "on the text",
       fmt::format("most of {} other choices, on repeats", kOtherChoices)},
      {}};
  Rng rng(1);
  for (const std::string role : {"previous-token", "induction"}) {
    auto [own, others] = SplitByRole(heads, role);
    if (own.empty() || others.size() < own.size()) continue;
    const double rise = closer.OnRepeats(own) - repeats;
    double most = 0;
    for (int choice = 0; choice < kOtherChoices; ++choice) {
      for (size_t i = 0; i < own.size(); ++i) {
        std::swap(others[i], others[i + rng.Below(others.size() - i)]);
      }
      most =
          std::max(most, closer.OnRepeats(std::span(others).first(own.size())) -
                             repeats);
    }
    result.AtLeast(
        fmt::format("shipped: repeats without the {} heads − without as many "
                    "others, nats",
                    role),
        rise - most, 0);
    table.rows.push_back({role, std::to_string(own.size()),
                          fmt::format("{:+.2f}", rise),
                          fmt::format("{:+.3f}", closer.OnText(own) - text),
                          fmt::format("{:+.2f}", most)});
  }
  result.tables.push_back(std::move(table));
}

}  // namespace

void TellShippedRoles(Context& context, const StudyRequest& request,
                      StudyResult& result) {
  if (request.model.empty()) {
    result.remark += " The shipped model is not here.";
    return;
  }
  const TrainedReader reader(request.model, request.reading);
  const Profile trained = reader.MakeProfile(context);
  const Profile fresh = reader.ProfileOf(context, *reader.NewModel(context, 1));
  TellSpecialised(
      {Examine(fresh, trained, 1)}, "shipped: ",
      fmt::format("The shipped model: {} heads", trained.heads.size()), result);
  result.pictures.push_back(
      DrawRoles("The shipped model: scores above chance", trained));
  CloseRoles(context, reader, trained, result);
}

}  // namespace headwise
