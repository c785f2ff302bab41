/*
 * Verification (include/hurray/verify.h): the whole, quantization parameters (spec 3) and
 * statistics. The layouts that keep indices are verified by the files beside this one.
 */
#include "verify.h"

#include <inttypes.h>

#include "checked.h"
#include "fail.h"
#include "layout.h"
#include "quantization.h"

/* ---- entries of buffers ---- */

Entries hri_entries_of(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                       uint32_t buffer, EntryForm form) {
    return (Entries){
        .role = hri_layout_kind(fields->layout.tag)->buffer_roles[buffer],
        .buffer = buffer,
        .form = form,
        .data = buffers[buffer].data,
        .count = buffers[buffer].size / (uint32_t)form,
    };
}

static inline bool is_outside(uint64_t entry, Range range) {
    return (((entry - range.low) & range.mask) > range.span) & (entry != range.also);
}

static inline uint64_t scan_range(const uint8_t *data, uint64_t count, Range range,
                                  EntryForm form) {
    uint64_t begin = 0;
    while (begin < count) {
        uint64_t end = count - begin < HRI_VERIFY_CHUNK ? count : begin + HRI_VERIFY_CHUNK;
        bool outside = false;
        for (uint64_t i = begin; i < end; i++) outside |= is_outside(load(data, i, form), range);
        if (outside) break;
        begin = end;
    }
    while (begin < count && !is_outside(load(data, begin, form), range)) begin++;
    return begin;
}

uint64_t hri_first_outside(const Entries *entries, uint64_t count, Range range) {
    switch (entries->form) {
    case ENTRY_U8: return scan_range(entries->data, count, range, ENTRY_U8);
    case ENTRY_U16: return scan_range(entries->data, count, range, ENTRY_U16);
    case ENTRY_U32: return scan_range(entries->data, count, range, ENTRY_U32);
    case ENTRY_U64: return scan_range(entries->data, count, range, ENTRY_U64);
    case ENTRY_HOST_U64: break;
    }
    return scan_range(entries->data, count, range, ENTRY_HOST_U64);
}

/* ---- violations ---- */

/* What a message says between "X[i] is …; expected " and the expected number. */
static const struct {
    const char *name;
    const char *expectation;
} kinds[] = {
    [HURRAY_VIOLATION_NONE] = {"none", ""},
    [HURRAY_VIOLATION_BUFFER_TOO_SMALL] = {"buffer_too_small", ""},
    [HURRAY_VIOLATION_POINTER_START] = {"pointer_start", "to start at"},
    [HURRAY_VIOLATION_POINTER_DECREASES] = {"pointer_decreases", "at least the one before it,"},
    [HURRAY_VIOLATION_POINTER_PAST_END] = {"pointer_past_end",
                                           "at most the number of entries to point to,"},
    [HURRAY_VIOLATION_POINTER_END] = {"pointer_end", "to end at"},
    [HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS] = {"index_out_of_bounds", "less than the extent"},
    [HURRAY_VIOLATION_INDEX_ORDER] = {"index_order", "more than the one before it,"},
    [HURRAY_VIOLATION_DUPLICATE] = {"duplicate", ""},
    [HURRAY_VIOLATION_PAGE_ID] = {"page_id", "less than num_pages"},
    [HURRAY_VIOLATION_SCALE] = {"scale", ""},
    [HURRAY_VIOLATION_ZERO_POINT] = {"zero_point", ""},
    [HURRAY_VIOLATION_STATISTICS] = {"statistics", ""},
};

const char *hurray_violation_name(HurrayViolationKind kind) {
    size_t at = (size_t)kind;
    return at < sizeof kinds / sizeof kinds[0] ? kinds[at].name : NULL;
}

void hri_record(HurrayViolation *out, HurrayViolationKind kind, uint32_t buffer, uint64_t position,
                uint64_t found, uint64_t expected) {
    if (out != NULL) *out = (HurrayViolation){kind, buffer, position, found, expected};
}

HurrayStatus hri_report_entry(HurrayViolation *out, HurrayViolationKind kind,
                              const Entries *entries, uint64_t at, uint64_t expected) {
    uint64_t found = entry_at(entries, at);
    hri_record(out, kind, entries->buffer, at, found, expected);
    return hri_fail(HURRAY_ERR_DATA_INVALID, "%s[%" PRIu64 "] is %" PRIu64 "; expected %s %" PRIu64,
                    entries->role, at, found, kinds[kind].expectation, expected);
}

HurrayStatus hri_check_enough(HurrayViolation *out, const Entries *entries, uint64_t needed) {
    if (entries->count >= needed) return HURRAY_OK;
    hri_record(out, HURRAY_VIOLATION_BUFFER_TOO_SMALL, entries->buffer, entries->count,
               entries->count, needed);
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "%s holds %" PRIu64 " entries; expected at least %" PRIu64, entries->role,
                    entries->count, needed);
}

/* ---- quantization parameters ---- */

/* Bits of the magnitude of a scale type, and of that of its infinity. */
typedef struct ScaleForm {
    EntryForm form;
    uint64_t magnitude;
    uint64_t infinity;
} ScaleForm;

static ScaleForm scale_form(uint8_t type) {
    switch (type) {
    case HURRAY_TYPE_FLOAT16: return (ScaleForm){ENTRY_U16, 0x7FFF, 0x7C00};
    case HURRAY_TYPE_BFLOAT16: return (ScaleForm){ENTRY_U16, 0x7FFF, 0x7F80};
    default: return (ScaleForm){ENTRY_U32, 0x7FFFFFFF, 0x7F800000};
    }
}

/* What a scale is that should not be there. */
static const char *describe_scale(ScaleForm form, uint64_t bits) {
    uint64_t magnitude = bits & form.magnitude;
    if (magnitude > form.infinity) return "NaN";
    if (magnitude == form.infinity) return "infinite";
    return magnitude == 0 ? "zero" : "negative";
}

static HurrayStatus report_scale(HurrayViolation *out, const Entries *scales, uint64_t at,
                                 const char *what, const char *expectation) {
    uint64_t bits = entry_at(scales, at);
    hri_record(out, HURRAY_VIOLATION_SCALE, scales->buffer, at, bits, 0);
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "%s[%" PRIu64 "] has the bits 0x%0*" PRIX64 ", %s; expected %s", scales->role,
                    at, 2 * (int)scales->form, bits, what, expectation);
}

/* Magnitude 1 … infinity − 1, whatever the sign. */
static HurrayStatus check_affine_scales(HurrayViolation *out, const Entries *scales,
                                        ScaleForm form) {
    Range range = {1, form.magnitude, form.infinity - 2, 1};
    uint64_t at = hri_first_outside(scales, scales->count, range);
    if (at == scales->count) return HURRAY_OK;
    return report_scale(out, scales, at, describe_scale(form, entry_at(scales, at)),
                        "a finite number other than 0");
}

/* Bits 0 … infinity − 1, and negative zero, which is not less than 0. */
static HurrayStatus check_nf4_scales(HurrayViolation *out, const Entries *scales, ScaleForm form) {
    Range range = {0, UINT64_MAX, form.infinity - 1, form.magnitude + 1};
    uint64_t at = hri_first_outside(scales, scales->count, range);
    if (at == scales->count) return HURRAY_OK;
    return report_scale(out, scales, at, describe_scale(form, entry_at(scales, at)),
                        "a finite number, at least 0");
}

static HurrayStatus check_e8m0_scales(HurrayViolation *out, const Entries *scales) {
    uint64_t at = hri_first_outside(scales, scales->count, (Range){1, 0xFF, 0xFD, 1});
    if (at == scales->count) return HURRAY_OK;
    return report_scale(out, scales, at, "no value of float8_e8m0", "0x01 … 0xFE");
}

/* int32 entries against the range of a stored type of at most 32 bits. */
static HurrayStatus check_zero_points(HurrayViolation *out, const Entries *zero_points,
                                      uint8_t type_tag) {
    const HurrayElementType *type = hurray_element_type_from_tag(type_tag);
    int64_t size = INT64_C(1) << type->bits;
    int64_t least = type->is_signed ? -size / 2 : 0, most = least + size - 1;
    if (most > INT32_MAX) most = INT32_MAX;
    Range range = {(uint64_t)least, UINT32_MAX, (uint64_t)(most - least), (uint32_t)least};
    uint64_t at = hri_first_outside(zero_points, zero_points->count, range);
    if (at == zero_points->count) return HURRAY_OK;
    uint64_t bits = entry_at(zero_points, at);
    int64_t found = (int64_t)bits - (bits > INT32_MAX ? INT64_C(1) << 32 : 0);
    hri_record(out, HURRAY_VIOLATION_ZERO_POINT, zero_points->buffer, at, (uint64_t)found,
               (uint64_t)(found < least ? least : most));
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "%s[%" PRIu64 "] is %" PRId64 "; expected %" PRId64 " … %" PRId64
                    ", the range of %s",
                    zero_points->role, at, found, least, most, type->name);
}

static Entries parameters_of(const HurrayBytes *buffers, uint32_t buffer, const char *role,
                             EntryForm form) {
    const HurrayBytes *bytes = &buffers[buffer];
    return (Entries){role, buffer, form, bytes->data, bytes->size / (uint32_t)form};
}

/* Per-channel and per-block. Sizes were checked, or follow no rule where a dimension is dynamic. */
static HurrayStatus verify_affine(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                  HurrayViolation *out) {
    const HurrayQuantization *quantization = fields->quantization;
    ScaleForm form = scale_form(quantization->scale_type);
    uint32_t zero_point_buffer = quantization->zero_point_buffer;
    bool is_shared = zero_point_buffer == quantization->scale_buffer;
    Entries scales = parameters_of(buffers, quantization->scale_buffer, "scales", form.form);
    if (is_shared) { /* all scales, then as many zero points */
        scales.count = buffers[quantization->scale_buffer].size / ((uint32_t)form.form + 4u);
    }
    HurrayStatus status = check_affine_scales(out, &scales, form);
    if (status != HURRAY_OK || zero_point_buffer == HURRAY_NO_BUFFER) return status;
    Entries zero_points = parameters_of(buffers, zero_point_buffer, "zero points", ENTRY_U32);
    if (is_shared) {
        if (scales.count != 0) zero_points.data += (size_t)scales.count * (uint32_t)form.form;
        zero_points.count = scales.count;
    }
    return check_zero_points(out, &zero_points, fields->type_tag);
}

static HurrayStatus verify_quantization(const HurrayDescriptorFields *fields,
                                        const HurrayBytes *buffers, HurrayViolation *out) {
    const HurrayQuantization *quantization = fields->quantization;
    ScaleForm form = scale_form(HURRAY_TYPE_FLOAT32);
    Entries scales;
    switch (quantization->scheme) {
    case HURRAY_SCHEME_PER_CHANNEL:
    case HURRAY_SCHEME_PER_BLOCK: return verify_affine(fields, buffers, out);
    case HURRAY_SCHEME_NF4:
        scales = parameters_of(buffers, quantization->scale_buffer, "scales", form.form);
        return check_nf4_scales(out, &scales, form);
    case HURRAY_SCHEME_MXFP:
        scales = parameters_of(buffers, quantization->scale_buffer, "scales", ENTRY_U8);
        return check_e8m0_scales(out, &scales);
    default: return HURRAY_OK; /* per-tensor: all of it stands in the descriptor */
    }
}

/* ---- statistics ---- */

static HurrayStatus verify_statistics(const HurrayDescriptorFields *fields, HurrayViolation *out) {
    const HurrayStatistics *statistics = fields->statistics;
    if (hurray_statistics_check_authored(statistics) != HURRAY_OK) { /* which left the message */
        hri_record(out, HURRAY_VIOLATION_STATISTICS, HURRAY_NO_BUFFER, 0, 0, 0);
        return HURRAY_ERR_DATA_INVALID;
    }
    if ((statistics->computed_mask & HURRAY_STATISTICS_NNZ) == 0 ||
        hurray_layout_class(fields->layout.tag) != HURRAY_LAYOUT_CLASS_SPARSE ||
        statistics->nnz == fields->layout.sparse.nnz) {
        return HURRAY_OK;
    }
    hri_record(out, HURRAY_VIOLATION_STATISTICS, HURRAY_NO_BUFFER, 0, statistics->nnz,
               fields->layout.sparse.nnz);
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "statistics: nnz is %" PRIu64 "; expected that of the layout, %" PRIu64,
                    statistics->nnz, fields->layout.sparse.nnz);
}

/* ---- the whole ---- */

/* Layouts that keep indices. */
static const struct {
    uint8_t tag;
    HurrayStatus (*verify)(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                           HurrayViolation *out);
} indexed[] = {
    {HURRAY_LAYOUT_COO, hri_verify_coo},           {HURRAY_LAYOUT_CSR, hri_verify_csr},
    {HURRAY_LAYOUT_CSC, hri_verify_csc},           {HURRAY_LAYOUT_CSF, hri_verify_csf},
    {HURRAY_LAYOUT_BLOCK_PAGED, hri_verify_paged},
};

static HurrayStatus verify_layout(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                  HurrayViolation *out) {
    for (size_t i = 0; i < sizeof indexed / sizeof indexed[0]; i++) {
        if (indexed[i].tag == fields->layout.tag) return indexed[i].verify(fields, buffers, out);
    }
    return HURRAY_OK;
}

/* A permissive reader carries what it does not know, and leaves its data alone. */
static HurrayStatus check_known(const HurrayDescriptorFields *fields) {
    const char *what = NULL;
    uint8_t tag = 0;
    if (hri_layout_kind_of(fields) == &hri_layout_opaque) {
        what = "layout", tag = fields->layout.tag;
    } else if (hurray_element_type_is_reserved(fields->type_tag)) {
        what = "type", tag = fields->type_tag;
    } else if (hri_quantization_is_opaque(fields->quantization)) {
        what = "quantization scheme", tag = fields->quantization->scheme;
    }
    if (what == NULL) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_UNSUPPORTED,
                    "the rules of %s tag 0x%02X are not known: the tensor cannot be verified", what,
                    tag);
}

static HurrayStatus check_buffer(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                 uint32_t i) {
    uint64_t size = buffers[i].size, declared = fields->buffers[i].byte_size;
    if (i == 0 && buffers[i].data == NULL && size == 0) return HURRAY_OK; /* never read */
    if (size != declared) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "buffers[%" PRIu32 "].size is %" PRIu64
                        "; expected the byte_size in its handle, %" PRIu64,
                        i, size, declared);
    }
    if (size != 0 && buffers[i].data == NULL) {
        return hri_fail(HURRAY_ERR_NULL_POINTER,
                        "buffers[%" PRIu32 "].data is NULL, with a size of %" PRIu64, i, size);
    }
    size_t addressable;
    if (checked_size(size, &addressable)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                    "buffers[%" PRIu32 "].size is %" PRIu64 ", more than this host can address", i,
                    size);
}

HurrayStatus hurray_verify(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                           uint32_t count, HurrayViolation *out) {
    if (fields == NULL) return hri_fail_null("fields");
    if (buffers == NULL && count != 0) return hri_fail_null("buffers");
    HurrayStatus status = hurray_descriptor_validate(fields);
    if (status == HURRAY_OK) status = check_known(fields);
    if (status != HURRAY_OK) return status;
    if (count != fields->buffer_count) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "count is %" PRIu32 "; expected the %" PRIu32 " buffers of the descriptor",
                        count, fields->buffer_count);
    }
    for (uint32_t i = 0; status == HURRAY_OK && i < count; i++) {
        status = check_buffer(fields, buffers, i);
    }
    if (status == HURRAY_OK) status = verify_layout(fields, buffers, out);
    if (status == HURRAY_OK && fields->quantization != NULL) {
        status = verify_quantization(fields, buffers, out);
    }
    if (status == HURRAY_OK && fields->statistics != NULL) {
        status = verify_statistics(fields, out);
    }
    return status;
}
