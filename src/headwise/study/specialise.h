// What study specialise measures of a model's heads, and its part on a model
// that was trained before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/study/study.h"

namespace headwise {

class Language;

// Induction is judged on random repeats: on a text it can hardly be told from
// chance.
inline constexpr char kInductionOnRepeats[] = "repeats.induction";
// The other form of repeats: other sequences, on which it is judged anew.
inline constexpr char kInductionOnPairs[] = "repeats-50x2.induction";

// What every head scores on every role above chance, [heads][roles].
using RoleScores = std::vector<std::vector<double>>;
// induction: the metric of that role.
RoleScores ScoresAboveChance(
    const Profile& profile, const std::string& induction = kInductionOnRepeats);

// Whether a head's roles on one text tell its roles on another better than
// another head of its layer does: the cosine of the scores on both, head by
// head, less the 97.5 % point of that with the heads of each layer dealt anew.
// 0 or less where heads of a layer share its work; a few specialists are
// enough, since nothing is dealt across layers. layers: of every head.
double AgreementBeyondLayer(const RoleScores& first, const RoleScores& second,
                            const std::vector<int64_t>& layers, uint64_t seed);

// What it gives for planted heads: `specialists` of 6 × 8 do one thing each,
// the rest nothing; −1: all heads of a layer share one role.
double PlantedAgreement(int64_t specialists, uint64_t seed);

// Rise of the loss on random repeats without the two heads that score best on
// them less the mean rise without as many others.
double RiseOverOthers(Context& context, const Model& model,
                      const Language& language, const Profile& profile,
                      uint64_t seed);

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
