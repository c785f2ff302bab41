/*
 * Linkage of the public functions. Everything else in the library is hidden.
 *
 * Define HURRAY_STATIC when linking the static library on Windows; elsewhere nothing is needed.
 */
#ifndef HURRAY_API_H
#define HURRAY_API_H

#if defined(_WIN32) && !defined(HURRAY_STATIC)
#ifdef HURRAY_BUILDING
#define HURRAY_API __declspec(dllexport)
#else
#define HURRAY_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define HURRAY_API __attribute__((visibility("default")))
#else
#define HURRAY_API
#endif

#ifdef __cplusplus
#define HURRAY_BEGIN_DECLS extern "C" {
#define HURRAY_END_DECLS }
#else
#define HURRAY_BEGIN_DECLS
#define HURRAY_END_DECLS
#endif

#endif
