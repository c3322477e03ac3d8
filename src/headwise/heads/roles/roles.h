// Roles of heads: what each one does, with its evidence, or "no role". Reads a
// profile; the rules are one table (rules.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"
#include "headwise/heads/roles/rules.h"

namespace headwise {

inline constexpr const char* kNoRole = "no role";

// What ablating the head did to the behaviour that its role would explain.
struct CausalCheck {
  std::string behaviour;  // "loss on repeated copies"
  double before = 0;
  double after = 0;
  std::string text;  // "loss on repeated copies 2.31 → 4.80"
};

struct Role {
  std::string name;  // "previous-token", "offset -2", "syntactic(nsubj)"
  double score = 0;  // mean, with its 95 % interval over sequences
  double low = 0;    // NaN for fewer than two sequences
  double high = 0;
  double count = 0;  // rows, words or cases
  // Holds only with the sinks left out; `content_mass` is then the mean mass
  // outside them.
  bool sink_excluded = false;
  double content_mass = 1;
  std::string material;  // what was run: "text", "random repeats"
  std::string evidence;  // "uniform .02, largest key in 97 % of rows"
  double strength = 0;   // how far above its threshold, 1 at the most possible
  bool shape = false;  // how attention is spread ("broad"), not what it is for
  std::optional<CausalCheck> check;
};

struct HeadRoles {
  HeadRef head;
  std::vector<Role> roles;  // strongest first; empty: no role
  // Without a role: what came closest, "local .61 of .70"; may be "".
  std::string closest;

  // Whether a role says what the head does; a mere shape does not.
  bool HasFunction() const;
};

// Heads with a role that says what they do, and heads of which only the shape
// of their attention is known.
struct RoleCounts {
  int64_t with_function = 0;
  int64_t shape_only = 0;
};
RoleCounts CountRoles(std::span<const HeadRoles> heads);

// Which of a metric's variants roles are judged by.
enum class RepeatForm : uint8_t {
  k25x4,  // 25 distinct random tokens four times over
  k50x2,  // 50 of them twice: the form of older figures, with lower scores
};
const char* Name(RepeatForm form);  // "25x4"

struct RoleForms {
  RepeatForm repeats = RepeatForm::k25x4;  // of induction
  // Positions count words instead of tokens, where the profile has them
  // (profile --words).
  bool words = false;
};

// One a head, in the profile's order. A head has a role where the whole 95 %
// interval of its score is past the threshold; of one sequence, which has no
// interval, where the score is. A role that passes with the sinks counted
// stands before one that passes only without them; a mere shape stands last.
std::vector<HeadRoles> AssignRoles(const Profile& profile,
                                   const RoleThresholds& thresholds = {},
                                   const RoleForms& forms = {});

// "previous-token", "previous-token (when not at the sink, c = .21)"
std::string ToString(const Role& role);

}  // namespace headwise
