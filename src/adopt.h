/* The import that from_strided and DLPack share. */
#ifndef HURRAY_SRC_ADOPT_H
#define HURRAY_SRC_ADOPT_H

#include <hurray/adopt.h>

/* Dense memory of another library, and what to do with it; see hurray_tensor_from_strided. */
typedef struct HriAdoption {
    HurrayBufferInfo info;
    uint64_t byte_offset; /* of element [0, …, 0] behind a handle; 0 where data is an address */
    uint8_t type_tag;
    uint32_t rank;
    const uint64_t *shape;
    const int64_t *strides; /* NULL: row-major */
    HurrayReleaseCallback release;
    void *context;
    HurrayCopy copy;
    const HurrayAllocator *allocator;
} HriAdoption;

HurrayStatus hri_adopt(const HriAdoption *from, HurrayTensor **out);

#endif
