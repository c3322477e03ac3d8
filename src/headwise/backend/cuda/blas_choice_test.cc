// Which algorithm a product takes: sizes decide.
#include "headwise/backend/cuda/blas_choice.h"

#include <gtest/gtest.h>

namespace headwise {
namespace {

constexpr int kHopper = 66, kProcessors = 132;

BlasProduct Halves(int64_t m, int64_t n, int64_t k) {
  return {.m = m, .n = n, .k = k, .type = CUDA_R_16BF, .c_type = CUDA_R_16BF};
}

cublasLtClusterShape_t ClusterOf(const BlasProduct& product) {
  const auto choice = BetterChoice(product, kHopper, kProcessors);
  return choice ? choice->cluster : CUBLASLT_CLUSTER_SHAPE_AUTO;
}

TEST(BlasChoice, ManyTilesAreTakenInTurns) {
  const auto choice =
      BetterChoice(Halves(65536, 3072, 768), kHopper, kProcessors);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->tile, CUBLASLT_MATMUL_TILE_128x128);
  EXPECT_EQ(choice->option, 1u);
}

TEST(BlasChoice, ClustersLieWhereTilesArePairs) {
  EXPECT_EQ(ClusterOf(Halves(65536, 768, 768)), CUBLASLT_CLUSTER_SHAPE_2x1x1);
  EXPECT_EQ(ClusterOf(Halves(65536, 384, 384)), CUBLASLT_CLUSTER_SHAPE_1x2x1);
}

TEST(BlasChoice, TheFirstAnswerStaysForFewTilesAndLongSums) {
  EXPECT_FALSE(BetterChoice(Halves(2048, 768, 768), kHopper, kProcessors));
  EXPECT_FALSE(BetterChoice(Halves(65536, 768, 50304), kHopper, kProcessors));
}

TEST(BlasChoice, TheFirstAnswerStaysForOtherTypesChipsAndLayouts) {
  const BlasProduct halves = Halves(65536, 3072, 768);
  EXPECT_FALSE(BetterChoice(halves, kHopper - 1, kProcessors));
  BlasProduct product = halves;
  product.c_type = CUDA_R_32F;
  EXPECT_FALSE(BetterChoice(product, kHopper, kProcessors));
  product.type = CUDA_R_32F;
  EXPECT_FALSE(BetterChoice(product, kHopper, kProcessors));
  product = halves;
  product.a_along_k = false;
  EXPECT_FALSE(BetterChoice(product, kHopper, kProcessors));
}

TEST(BlasChoice, SlopesKeepTheirTile) {
  BlasProduct product = Halves(65536, 3072, 768);
  product.epilogue = BlasEpilogue::kGeluBackward;
  product.inner = &product;
  const auto choice = BetterChoice(product, kHopper, kProcessors);
  ASSERT_TRUE(choice);
  EXPECT_FALSE(choice->tile);
  EXPECT_EQ(choice->cluster, CUBLASLT_CLUSTER_SHAPE_2x1x1);
  product.epilogue = BlasEpilogue::kGelu;
  EXPECT_FALSE(BetterChoice(product, kHopper, kProcessors));
}

}  // namespace
}  // namespace headwise
