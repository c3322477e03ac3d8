// Semantic similarity: does a head read tokens that mean the same? The rank
// correlation, over the keys a row sees, between its attention and the cosine
// of the input embeddings, positions left out. Beside it the same with the
// vocabulary's embeddings permuted, which keeps everything but the meaning.
#pragma once

#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/site_notes.h"
#include "headwise/model/model.h"
#include "headwise/observation.h"

namespace headwise {

// Where heads of a call stand in a profile: head h is first + h.
struct ProfilePlace {
  Profile* profile = nullptr;
  size_t first = 0;
};

void PrepareSemantic(Profile& profile);

// Sampled rows, and how alike their keys are to them.
struct SemanticSamples {
  std::vector<RowRef> refs;  // by sequence
  // On the context's device; R rows with n keys that count in all.
  Tensor keys, starts;  // i32 [n], [R + 1]
  Tensor rows;          // i32 [R], in the batch
  Tensor ranks;  // f32 [2, n]: of the cosines, and with the vocabulary permuted
  Tensor norms;  // f64 [2, R]
};

// Rows drawn by the windows' hashes: one in 256, at least one and at most four
// a window. Self, adjacent, same-token, same-word, first and special keys are
// left out; rows with fewer than 8 others do not count. By the embeddings of a
// stack of the model's.
SemanticSamples DrawSemantic(Context& context, const SiteNotes& site,
                             const Model& model, const Stack& stack);

// The correlations of a call's heads on those rows, f64 [R, H, 2] on the
// context's device; nothing where there is no row. entropy: f32 [1, H, T].
Tensor SemanticAgreement(Context& context, const HeadSource& source,
                         const ConstTensorView& entropy,
                         const SemanticSamples& samples);

// Adds them, brought home.
void AddSemantic(std::span<const double> agreement,
                 const SemanticSamples& samples, ProfilePlace place);

// Spearman's rank correlation of a and b with ties at their mean rank; 0 where
// one of them is constant. a, b: [n].
double RankAgreement(std::span<const float> a, std::span<const float> b);

}  // namespace headwise
