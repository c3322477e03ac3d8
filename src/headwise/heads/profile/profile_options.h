// What is asked of a profile of windows: the job, and what doors make of a text
// input besides.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/dist/group.h"
#include "headwise/heads/profile/detector.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/runtime/kept_work.h"

namespace headwise {

struct ProfileOptions : ProfileJob {
  // Tokens of a window. 0: 512 for causal models, 128 for encoders (whose
  // later positions were often hardly trained), or what the model can take.
  int64_t context = 0;
  int64_t tokens = 0;                  // stop after so many; 0: all
  std::span<Detector> detectors = {};  // those of `patterns`
  // As PassOptions (runtime/text_pass.h) have them.
  dist::Group* group = nullptr;
  KeptWork* kept = nullptr;
};

}  // namespace headwise
