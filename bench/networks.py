"""ResNet-50 and MobileNetV2 with random weights, in every form of int8 that public files use."""

from onnx_graph import Form, Graph

QDQ = Form(kind="qdq")
FORMS = {  # name of the file behind "NET_"
    "fp32": Form(),
    "bn_fp32": Form(batch_norm=True),
    "qdq_u8s8": QDQ,
    "qdq_u8s8_pt": QDQ.with_(per_channel=False),
    "qdq_s8s8": QDQ.with_(activations="s8"),
    "qdq_s8sym": QDQ.with_(activations="s8", symmetric=True, relu="before"),
    "qdq_u8s8_keeprelu": QDQ.with_(relu="behind"),
    "qdq_u8s8_relubefore": QDQ.with_(relu="before"),
    "qdq_u8s8_bnleft": QDQ.with_(batch_norm=True, relu="before"),
    "qdq_u8s8_scale1d": QDQ.with_(scale_shape=(1,)),
    "silu_fp32": Form(silu=True),
    "silu_qdq_u8s8": QDQ.with_(silu=True),
    "qdq_convonly": QDQ.with_(around="linear"),
    "qdq_convinout": QDQ.with_(around="linear", outputs=True),
    "dynamic_s8": Form(kind="dynamic", per_channel=False),
    "dynamic_u8": Form(kind="dynamic", per_channel=False, weights="u8"),
    "wonly8": Form(kind="weights"),
}
# ONNX Runtime refuses these: its QLinearAdd takes only scalars.
REFUSED_BY_ONNXRUNTIME = {"resnet50_qdq_u8s8_scale1d", "mobilenetv2_qdq_u8s8_scale1d"}


def resnet50(form):
    g = Graph(form)
    x = g.input(["N", 3, 224, 224])
    x = g.max_pool(g.conv(x, 64, 7, stride=2, act="relu"), 3, 2, 1)
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            s = stride if i == 0 else 1
            y = g.conv(x, width, 1, act="relu")
            y = g.conv(y, width, 3, stride=s, act="relu")
            y = g.conv(y, width * 4, 1, gain=0.3)
            if i == 0:
                x = g.conv(x, width * 4, 1, stride=s)
            x = g.binary("Add", y, x, act="relu")
    g.output(g.dense(g.flatten(g.global_average_pool(x)), 1000))
    return g.model("resnet50")


def mobilenetv2(form):
    g = Graph(form)
    x = g.input(["N", 3, 224, 224])
    x = g.conv(x, 32, 3, stride=2, act="relu6")
    for expand, out, blocks, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for i in range(blocks):
            width = x.channels * expand
            y = x if expand == 1 else g.conv(x, width, 1, act="relu6")
            y = g.conv(y, width, 3, stride=stride if i == 0 else 1, group=width, act="relu6")
            residual = i > 0
            y = g.conv(y, out, 1, gain=0.3 if residual else 1.0)
            x = g.binary("Add", x, y) if residual else y
    x = g.conv(x, 1280, 1, act="relu6")
    g.output(g.dense(g.flatten(g.global_average_pool(x)), 1000))
    return g.model("mobilenetv2")


NETWORKS = {"resnet50": resnet50, "mobilenetv2": mobilenetv2}


def files():
    """(name, function that makes the model)"""
    for name, network in NETWORKS.items():
        for form_name, form in FORMS.items():
            yield f"{name}_{form_name}", lambda network=network, form=form: network(form)
