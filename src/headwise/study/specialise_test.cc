// The control of specialisation finds planted specialists, few or many, and
// nothing where heads of a layer share its work.
#include "headwise/study/specialise.h"

#include <gtest/gtest.h>

namespace headwise::specialise_test {
namespace {

TEST(AgreementBeyondLayerTest, FindsPlantedSpecialists) {
  for (const int64_t specialists : {2, 4, 8, 14, 20}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      EXPECT_GT(PlantedAgreement(specialists, seed), 0.05)
          << specialists << ", " << seed;
    }
  }
}

TEST(AgreementBeyondLayerTest, FindsNothingWhereNobodySpecialises) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_LT(PlantedAgreement(0, seed), 0.05) << seed;
    EXPECT_LT(PlantedAgreement(-1, seed), 0.05) << seed;
  }
}

}  // namespace
}  // namespace headwise::specialise_test
