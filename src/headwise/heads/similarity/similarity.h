// Which heads resemble which: by where they look (pattern), by what they give
// (output) and by what they move (content); groups of like heads and a map.
//
//   pattern  mean over rows of the Bhattacharyya coefficient Σ_j √(A^a A^b),
//            all rows; exact Jensen–Shannon divergence on sampled rows
//   output   linear CKA of the heads' outputs z on sampled tokens
//   content  principal angles between what W_V reads, and what W_O writes
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/heads/similarity/cluster.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/text_pass.h"
#include "headwise/runtime/windows.h"
#include "headwise/similar.h"
#include "headwise/tensor/matrix.h"

namespace headwise {

// Matrices are [heads, heads]; NaN where two heads cannot be compared: of
// different kinds or masks, or (output, content) of a head that gives nothing.
struct Similarity {
  std::vector<HeadRef> heads;
  int64_t tokens = 0;        // of text that were run
  int64_t rows = 0;          // that bhattacharyya is a mean of
  int64_t sampled_rows = 0;  // that jsd is a mean of
  int64_t samples = 0;       // tokens of cka
  Matrix bhattacharyya;
  Matrix jsd;  // nats, 0 to ln 2
  Matrix cka;
  // Mean squared cosine of the principal angles; by chance head_dim / width.
  Matrix ov_read;
  Matrix ov_write;
  Clustering clusters;  // by Hellinger distance √(1 − Bhattacharyya)
  Matrix map;           // [heads, 2], of the same distances
  std::vector<HeadPair> closest;  // least divergence first, at most 50
  std::vector<HeadPair> twins;    // every pair below the job's `twin`
};

// Of ranks, the first gets the result, the others the names of heads. Throws
// Error(kInvalidArgument) for a job out of range and for windows in which no
// row counts, and Error(kCancelled) when stopped.
Similarity CompareHeads(Context& context, const Model& model,
                        std::span<const TokenWindow> windows,
                        const SimilarityJob& job = {},
                        const PassOptions& options = {});

// "headwise.similarity/1". Matrices rounded to 4 digits, null for NaN.
Json ToJson(const Similarity& similarity);

}  // namespace headwise
