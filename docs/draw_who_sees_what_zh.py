"""Draw docs/plots/who-sees-what-zh.svg, the same picture in Chinese: python -m docs.draw_who_sees_what_zh

A test compares the picture with the output of this script. A text of the English picture that the table lacks is an
error: the two pictures cannot differ in what they show.
"""

from __future__ import annotations

import re
from html import escape, unescape

from docs.draw_who_sees_what import FOOT, PICTURE, ROOT, TITLE, drawn

CHINESE_PICTURE = PICTURE.with_name("who-sees-what-zh.svg")
NAMES = (  # keys and names of the program stay as they are
    *("horizontal", "vertical_logistic, protocol: masked", "vertical_logistic, protocol: shared"),
    *(
        "vertical_trees",
        "split",
        "private_training",
        "NOT_ENCRYPT",
        "DP_ENCRYPT",
        "PW_ENCRYPT",
        "DDP_ENCRYPT",
        "EmbeddingDP",
    ),
    "protection: noised",
)
CHINESE = {
    TITLE: "各种训练类型中谁能看到什么：参与方，以及它们之间传递的内容",
    # marks
    "in the clear": "明文",
    "clear": "明文",
    "noised": "加噪",
    "masked or encrypted": "掩码或加密",
    "masked": "掩码",
    "encrypted": "加密",
    "masked and encrypted": "掩码并加密",
    "masked and noised": "掩码并加噪",
    "secret shares": "秘密分享",
    "shares": "份额",
    # horizontal
    "many clients, one coordinator; encrypt_type selects one of the four uploads": "多个客户端，一个协调方；"
    "encrypt_type 选择四种上传方式之一",
    "each client": "每个客户端",
    "has its records": "持有自己的记录",
    "sees the model of each round": "看到每一轮的模型",
    "coordinator": "协调方",
    "has the model": "持有模型",
    "sees single updates or, with": "看到单独的更新；",
    "masks, only their sum": "使用掩码时只看到更新之和",
    "sees who takes part": "看到谁参与",
    "model": "模型",
    "update": "更新",
    "update, sample count": "更新、样本数",
    "update, sample count, loss": "更新、样本数、损失",
    # vertical_trees
    "the same, with boosted trees": "同上，使用提升树",
    "sees which of its splits": "看到自己的哪些分裂被选中，",
    "won, and no rows of nodes": "看不到节点中的行",
    "sees sums by bin, from which": "看到各分箱的和，",
    "the bins of cells follow": "由此可推出各单元格的分箱",
    "sums of gradients by bin": "各分箱的梯度之和",
    "splits that won": "选中的分裂",
    "which rows go left": "哪些行向左",
    # vertical_logistic
    "the same people, different columns": "同一批人，不同的列",
    "each passive": "每个被动方",
    "has features": "持有特征",
    "sees its own gradients": "看到自己的梯度",
    "keeps its own weights": "保留自己的权重",
    "active": "主动方",
    "has labels and features": "持有标签和特征",
    "sees scores: of one passive,": "看到得分：单个被动方的，",
    "or the sum of several": "或多个被动方之和",
    "scores w·x, of a single passive": "得分 w·x，只有一个被动方时",
    "scores w·x, of several passives": "得分 w·x，有多个被动方时",
    "residues": "残差",
    "gradient": "梯度",
    "the same gradient, decrypted": "同一梯度，已解密",
    "the same, with a dealer; no party sees scores or gradients": "同上，另有分发方；没有任何一方看到得分或梯度",
    "sees its own weights": "看到自己的权重",
    "sees its own weights, figures": "看到自己的权重、评估指标",
    "and predictions": "和预测结果",
    "tables, weights, scores, residues, gradients": "表、权重、得分、残差、梯度",
    "results, which the receiver adds up": "结果，由接收方相加得到",
    "dealer": "分发方",
    "has no data": "没有数据",
    "sees the numbers of rows,": "看到行数、",
    "columns and steps": "列数和步数",
    "random seeds": "随机种子",
    # split
    "one network, cut between parties (V; in U the leader has the records)": "一个网络，切分到多方"
    "（图中为 V；在 U 中记录属于 leader）",
    "each follower": "每个 follower",
    "has features and the": "持有特征",
    "bottom network": "和底部网络",
    "sees gradients": "看到梯度",
    "leader": "leader",
    "has labels and the": "持有标签",
    "top network": "和顶部网络",
    "sees activations": "看到激活值",
    "activations": "激活值",
    "activations as bits": "比特形式的激活值",
    "gradients": "梯度",
    # private_training
    "one party; nothing is sent while it trains": "只有一方；训练期间不发送任何内容",
    "party": "训练方",
    "has the records": "持有记录",
    "sees its own losses": "看到自己的损失",
    "reader of the model": "得到模型的人",
    "sees the trained weights": "看到训练好的权重",
    "model, with ε for each record": "模型，每条记录有 ε",
    # what is not drawn
    FOOT[0]: "图中未画出：数据大小、公钥和参与者名单（以明文传递）；ID 对齐；标签计数；",
    FOOT[1]: "无标签评估的推理向量；预测。每次运行的报告会列出每个字段。",
}


def chinese(words: str) -> str:
    """A text of the picture in Chinese: its parts between dots one by one."""
    return " · ".join(part if part in NAMES else CHINESE[part] for part in words.split(" · "))


def drawn_in_chinese() -> str:
    """The picture as SVG."""
    head, style, body = re.split(r"(<style>.*?</style>)", drawn(), maxsplit=1, flags=re.DOTALL)
    return _translated(head) + style + _translated(body)


def _translated(svg: str) -> str:
    """Every text between two tags in Chinese. Behind a mark, a text begins with a dot."""
    return re.sub(r">( · )?([^<>\n]+)<", lambda found: f">{found[1] or ''}{escape(chinese(unescape(found[2])))}<", svg)


if __name__ == "__main__":
    CHINESE_PICTURE.write_text(drawn_in_chinese(), encoding="utf-8")
    print(f"{CHINESE_PICTURE.relative_to(ROOT)} is drawn.")
