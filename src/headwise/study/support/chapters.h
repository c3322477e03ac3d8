// Sentence pairs that stand in chapters, of which whole ones are held out:
// sentences of one chapter repeat each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headwise/study/study.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/train/pair_batches.h"

namespace headwise {

struct Chapters {
  std::unique_ptr<Tokenizer> tokenizer;  // learned from what is trained on
  std::vector<TokenPair> train, development, test;
  StudyTextRecord record;
  bool given = false;  // else of a made-up language
};

// The request's *.tsv files, lines "BOOK:CHAPTER:VERSE<tab>source<tab>target";
// without any a made-up language, whose words are translated one by one and
// stand the other way round. Every 20th chapter is for development, and as many
// for the test. Throws Error(kInvalidArgument) naming file and line for another
// line, and for fewer than 20 chapters.
Chapters ReadChapters(const StudyRequest& request);

}  // namespace headwise
