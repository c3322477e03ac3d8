// The role of each head, with its evidence, or that it has none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/profile.h"
#include "headwise/progress.h"

namespace headwise {

class Transformer;  // model.h

inline constexpr const char* kNoRole = "no role";

/// Effect of ablating a head on the behaviour that its role would explain.
struct CausalCheck {
  std::string behaviour = {};  ///< "loss on repeated copies"
  double before = 0;
  double after = 0;
  std::string text = {};  ///< "loss on repeated copies 2.31 → 4.80"
};

struct Role {
  std::string name = {};  ///< "previous-token", "offset -2", "syntactic(nsubj)"
  char letter = '?';      ///< of its kind of role (RoleWords::letter)
  double score = 0;       ///< mean, with its 95 % interval over sequences
  double low = 0;         ///< NaN for fewer than two sequences
  double high = 0;
  double count = 0;  ///< rows, words or cases
  /// Holds only with the sinks left out; `content_mass` is then the mean mass
  /// outside them.
  bool sink_excluded = false;
  double content_mass = 1;
  std::string material = {};  ///< input: "text", "random repeats"
  std::string evidence = {};  ///< "uniform .02, largest key in 97 % of rows"
  double strength = 0;  ///< how far above its threshold, 1 at the most possible
  /// How attention is spread ("broad"), not what it is for.
  bool shape = false;
  std::optional<CausalCheck> check = {};
};

struct HeadRoles {
  HeadRef head = {};
  std::vector<Role> roles = {};  ///< strongest first; empty: no role
  /// Without a role: what came closest, "local .61 of .70"; may be "".
  std::string closest = {};

  /// Whether a role says what the head does; a mere shape does not.
  HEADWISE_API bool HasFunction() const;
};

/// Heads with a role that says what they do, and heads of which only the shape
/// of their attention is known.
struct RoleCounts {
  int64_t with_function = 0;
  int64_t shape_only = 0;
};

HEADWISE_API RoleCounts CountRoles(std::span<const HeadRoles> heads);

/// A form of the random-repeat test, which induction is judged by.
enum class RepeatForm : uint8_t {
  k25x4,  ///< 25 distinct random tokens four times over
  k50x2,  ///< 50 of them twice: the form of older figures, with lower scores
};
constexpr std::array<const char*, 2> FieldWords(RepeatForm) {
  return {"25x4", "50x2"};
}
HEADWISE_API const char* Name(RepeatForm form);  ///< "25x4"

/// A head that needs all of the past.
struct FarReader {
  HeadRef head = {};
  std::string why = {};  ///< "induction .93", "far .41"
};

/// Heads that a cache keeps whole (KvPolicy): self-attention heads with a role
/// that finds its key at any distance (induction, retrieval, duplicate,
/// coreference), and, of a profile that has text, those whose mean mass at
/// distances of `window` and more, less that on the first token, is 0.3 at
/// least. Distances are known by powers of two: a window between two counts as
/// the larger.
HEADWISE_API std::vector<FarReader> FarReaders(const Profile& profile,
                                               std::span<const HeadRoles> roles,
                                               int64_t window);
/// "previous-token", "previous-token (when not at the sink, c = .21)"
HEADWISE_API std::string ToString(const Role& role);

/// How roles are judged.
struct RoleJob {
  /// "induction=0.5": another threshold of a role, argmax or content-mass.
  std::vector<std::string> thresholds = {};
  RepeatForm repeat_form = RepeatForm::k25x4;
  /// Positions count words instead of tokens, where the profile has them
  /// (profile --words).
  bool words = false;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("thresholds", self.thresholds,
          "ROLE=NUMBER: how much of it a head needs, such as induction=0.5");
    visit("repeat_form", self.repeat_form,
          "form of the random-repeat test, 25 tokens four times or 50 twice, "
          "in which older figures are given");
    visit("words", self.words, "positions count words instead of tokens");
  }
};

struct ConfirmJob {
  int64_t sequences = 8;  ///< random repeats for every head
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("sequences", self.sequences,
          "random repeats that each role is confirmed on", AtLeast(1));
  }
};

/// One a head, in the profile's order. A head has a role where the whole 95 %
/// interval of its score is past the threshold.
HEADWISE_API std::vector<HeadRoles> FindRoles(const Profile& profile,
                                              const RoleJob& job = {});

/// Sets Role::check: what switching the head off does to the behaviour that the
/// role would explain, where there is one to look at.
HEADWISE_API void ConfirmRoles(Transformer& model,
                               std::vector<HeadRoles>& heads,
                               const ConfirmJob& job = {});

/// A relation of a treebank: the head that reads it best, which one half of the
/// sentences chose, beside the best fixed distance, both on the other half.
struct RelationHead {
  std::string relation = {};  ///< "nsubj"
  bool up = true;             ///< from the dependent to its governor
  HeadRef head = {};
  double share = 0;    ///< of words whose most attended other word is the right
  double cases = 0;    ///< words
  double fixed = 0;    ///< the share that the distance gets
  int64_t offset = 0;  ///< that distance, in words

  double points() const { return 100 * (share - fixed); }
};
/// Relations with enough cases, most points first.
HEADWISE_API std::vector<RelationHead> BestOfRelations(const Profile& profile);

/// The share that a baseline of annotated material gets (Profile::baselines); 0
/// where there is none.
HEADWISE_API double BaselineShare(const Profile& profile,
                                  const std::string& name);

/// For machines, as the commands' --json prints it (without "model").
/// Metrics of single syntactic relations are left out unless `every_metric`.
HEADWISE_API std::string JsonText(const Profile& profile,
                                  std::span<const HeadRoles> roles,
                                  bool every_metric = false);

}  // namespace headwise
