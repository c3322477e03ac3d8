// What study specialise measures of a model's heads, and its part on a model
// that was trained before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/study/study.h"

namespace headwise {

// Induction is judged on random repeats: on a text it can hardly be told from
// chance.
inline constexpr char kInductionOnRepeats[] = "repeats.induction";

// One model before and after training.
struct Specialised {
  double before = 0, after = 0;   // specialisation, nats
  double control = 0, bound = 0;  // of the random split: mean, 97.5 %
  double dealt = 0;               // 97.5 % of the shuffled
  double bound_before = 0;        // 97.5 % of the split of new weights
  double roles_before = 0, roles_after = 0;
};
Specialised Examine(const Profile& fresh, const Profile& trained,
                    uint64_t seed);

// The most that specialisation can be, nats.
double MostSpecialised();

// Judges what was found, one a seed. `whose` begins names.
void TellSpecialised(const std::vector<Specialised>& seeds,
                     const std::string& whose, const std::string& title,
                     StudyResult& result);

// Scores above chance of every head and role.
HeatMap DrawRoles(const char* title, const Profile& profile);

// Adds what request.model shows, where it is given.
void TellShippedRoles(Context& context, const StudyRequest& request,
                      StudyResult& result);

}  // namespace headwise
