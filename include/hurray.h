/* Forwards to <hurray/hurray.h>, for programs that write #include <hurray.h>. */
#ifndef HURRAY_FORWARDING_H
#define HURRAY_FORWARDING_H
#include "hurray/hurray.h"
#endif
