// Profiles are public; heads/profile/profiler.h makes them.
#pragma once

#include "headwise/model/head_ref.h"
#include "headwise/profile.h"
