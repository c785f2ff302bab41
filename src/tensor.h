/* What the library may do with a tensor that callers may not. */
#ifndef HURRAY_SRC_TENSOR_H
#define HURRAY_SRC_TENSOR_H

#include <hurray/tensor.h>

/*
 * hurray_tensor_create of fields that are known to be valid, and whose handles to be those of the
 * buffers: what was decoded, over buffers that were compared with it. What handles do not tell is
 * checked.
 */
HurrayStatus hri_tensor_create_checked(const HurrayDescriptorFields *fields,
                                       HurrayBuffer *const *buffers, HurrayTensor **out);

/* All buffers, in the order of the table; valid as long as the tensor. */
HurrayBuffer *const *hri_tensor_buffers(const HurrayTensor *tensor);

#endif
