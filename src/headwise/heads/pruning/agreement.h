// How alike two models' answers to the same text are, whatever the text says:
// their predictions, and the embeddings of sentences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/heads/importance/objective.h"

namespace headwise {

// Sums over each sequence, over its predictions; divide by the batch's weights.
struct AgreementSums {
  std::vector<double> divergence;  // KL(whole ‖ other), nats
  std::vector<double> same_token;  // both hold the same token likeliest
};

// A model, and its states of a batch as Model::Finish left them.
struct ModelStates {
  const Model& model;
  ConstTensorView x;
};

// Adds one entry a sequence of the batch. Both models predict tokens of one
// vocabulary.
void AddAgreement(Context& context, const ExampleBatch& batch,
                  const ModelStates& whole, const ModelStates& other,
                  AgreementSums& sums);

// The mean-pooled embedding of each example, [examples][width].
using TextVectors = std::vector<std::vector<double>>;
TextVectors VectorsOf(Context& context, const Model& model,
                      std::span<const TextExample> examples);

// One entry an example.
struct VectorAgreement {
  std::vector<double> cosine;          // of the example's two embeddings
  std::vector<double> same_neighbour;  // 1: the nearest other one is the same
};
// Two of as many examples, at least two; all are compared with all.
VectorAgreement CompareVectors(const TextVectors& whole,
                               const TextVectors& other);

}  // namespace headwise
