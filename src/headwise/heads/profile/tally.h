// Tallies are public.
#pragma once

#include "headwise/profile.h"
